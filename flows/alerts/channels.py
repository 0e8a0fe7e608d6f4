"""Delivery of alerts: Prefect events, on which automations of its server act, and messages by Apprise.

The addresses of Apprise are in the environment variable GRAFT_ALERTS.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Thread

from httpx import HTTPError
from prefect.client.orchestration import get_client
from prefect.events.schemas.events import Event, Resource
from prefect.settings import PREFECT_API_URL

from flows.alerts.alert import Alert
from flows.prefect_runs.crashed_runs import workspace
from flows.reports.publish import failure
from tasks.core.terminal import print_warning
from tasks.errors import GraftError, one_line
from tasks.redaction import redacted

ADDRESSES = "GRAFT_ALERTS"

LIMIT = 10.0
"""Seconds in which all channels have to accept the alerts; they are asked at the same time."""


def send(root: Path, alerts: Sequence[Alert]) -> None:
    """Send alerts of the project `root` through each channel; one that does not accept them is a warning."""
    for channel, why in _deliver(root, alerts) if alerts else ():
        if why:
            print_warning(f"alerts: {channel}: {why}; graft alerts test tries it again")


def try_channels(root: Path, say: Callable[[str], None]) -> None:
    """Send a test alert, and say of each channel if it was accepted. Raises GraftError if one was not."""
    results = _deliver(root, [Alert("test", "a test of the alerts; nothing happened")])
    if not results:
        raise GraftError(
            f"{ADDRESSES}: no address; set this variable to one of Apprise's or more, with spaces between them: "
            f"export {ADDRESSES}='ntfy://ntfy.sh/TOPIC tgram://TOKEN/CHAT'"
        )
    for channel, why in results:
        say(f"{channel}: {why or 'accepted'}")
    refused = [channel for channel, why in results if why]
    if refused:
        raise GraftError(f"alerts: {', '.join(refused)}: not accepted; correct that address, or look at its service")


def _deliver(root: Path, alerts: Sequence[Alert]) -> list[tuple[str, str]]:
    """Each channel in words, and why it did not accept all alerts; "" if it did."""
    channels: list[tuple[str, Callable[[Path, Alert], str]]] = [
        (redacted(f"{ADDRESSES} {number} ({address.partition('://')[0]}://…)"), partial(_notify, address))
        for number, address in enumerate(os.environ.get(ADDRESSES, "").split(), start=1)
    ]
    if url := PREFECT_API_URL.value():
        channels.append((redacted(f"prefect {url}"), _emit))
    answers = {name: f"no answer in {LIMIT:g} s" for name, _ in channels}

    def work(name: str, channel: Callable[[Path, Alert], str]) -> None:
        answers[name] = one_line(redacted("; ".join(filter(None, (channel(root, alert) for alert in alerts)))))

    # Not of a pool, whose threads the end of the process waits for. The context has Prefect's settings.
    threads = [Thread(target=copy_context().run, args=(work, *channel), daemon=True) for channel in channels]
    end = time.monotonic() + LIMIT
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return list(answers.items())


def _emit(root: Path, alert: Alert) -> str:
    """Give Prefect's server an event. Its own `emit_event` does not say if the server has it."""
    resource = {"prefect.resource.id": f"graft.project.{workspace(root)}", "prefect.resource.name": root.name}
    payload = {"line": redacted(alert.line), "run": alert.run}
    event = Event(event=f"graft.{alert.kind}", resource=Resource(resource), payload=payload)
    try:
        with get_client(sync_client=True) as client:
            client.request("POST", "/events", json=[event.model_dump(mode="json")])
    except HTTPError as error:
        return failure(error)
    except RuntimeError as error:  # of Prefect's client, after its retries
        return str(error)
    return ""


def _notify(address: str, root: Path, alert: Alert) -> str:
    import apprise  # takes 0.1 s

    # Without its own time limit, whose threads the end of the process would wait for.
    asset = apprise.AppriseAsset(storage_mode="memory", service_timeout=0)
    service = apprise.Apprise(asset=asset)
    if not service.add(address):
        return "no address that Apprise knows"
    title = f"graft {root.name}: {alert.kind.replace('.', ' ')}"
    with service.notify(title=title, body=redacted(alert.line), log_level=logging.WARNING) as result:
        return "" if result else next((entry.message for entry in result.logs()), "refused")
