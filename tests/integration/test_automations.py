"""The automations of `examples/automations.yaml` on a real Prefect server: each calls a webhook."""

import sys
from pathlib import Path

import httpx
import pytest
from prefect.blocks.webhook import Webhook as WebhookBlock
from prefect.settings import PREFECT_API_URL, temporary_settings

from tests.support.flow_runs import wait_until
from tests.support.tiny_project import REPOSITORY, graft, run
from tests.support.webhooks import webhook

pytestmark = pytest.mark.slow

AUTOMATIONS = (REPOSITORY / "examples" / "automations.yaml").read_text()
NO_BLOCK = "00000000-0000-0000-0000-000000000000"
HOURS = "within: 93600"


def test_an_alert_and_a_night_that_did_not_run_call_a_webhook(done: Path, prefect_api: str) -> None:
    """The test alert, as `graft alerts test` sends it; and a night of ten seconds."""
    assert (AUTOMATIONS.count(NO_BLOCK), AUTOMATIONS.count(HOURS)) == (2, 1)
    with webhook() as receiver, temporary_settings({PREFECT_API_URL: prefect_api}):
        block = WebhookBlock(url=f"http://127.0.0.1:{receiver.port}/called").save("graft-test", overwrite=True)
        file = done / "automations.yaml"
        file.write_text(AUTOMATIONS.replace(NO_BLOCK, str(block)).replace(HOURS, "within: 10"))
        prefect = str(Path(sys.executable).with_name("prefect"))
        run(done, prefect, "automation", "create", "--from-file", str(file), PREFECT_API_URL=prefect_api)
        try:
            accepted = graft(done, "alerts", "test", PREFECT_API_URL=prefect_api).stdout
            assert accepted == f"prefect {prefect_api}: accepted\n"
            alert = {"text": "project: a test of the alerts; nothing happened"}
            night = {"text": "graft: no scheduled run for 26 hours"}
            wait_until(lambda: {alert["text"], night["text"]} <= {post.body["text"] for post in receiver.posted})
            assert [(post.path, post.body) for post in receiver.posted].count(("/called", alert)) == 1
        finally:
            for made in httpx.post(f"{prefect_api}/automations/filter", json={}).json():
                httpx.delete(f"{prefect_api}/automations/{made['id']}").raise_for_status()
