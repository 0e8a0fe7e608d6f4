"""Law: no password, key or token is in anything that a run prints or writes, and nobody else can reach its servers."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import tiny_project
from tests.support.processes import is_loopback, listeners

pytestmark = pytest.mark.slow

MARK = "zq7Geheim"
SECRETS = {
    "OPENAI_API_KEY": f"sk-{MARK}-openai-0123456789",
    "HF_TOKEN": f"hf_{MARK}0123456789huggingface",
    "PREFECT_API_KEY": f"pnu_{MARK}0123456789prefect",
    "MLFLOW_TRACKING_PASSWORD": f"{MARK}-mlflow",
    "AWS_SECRET_ACCESS_KEY": f"{MARK}/aws+secret",
    "PGPASSWORD": f"{MARK}-postgres",
    "PREFECT_API_AUTH_STRING": f"admin:{MARK}-client",
    "PREFECT_SERVER_API_AUTH_STRING": f"admin:{MARK}-client",
    "SLACK_WEBHOOK_URL": f"https://hooks.example/services/T0/{MARK}",
    "GRAFT_ALERTS": f"tgram://123456789:{MARK}-token/98765 ntfy://ntfy.sh/{MARK}-topic",
}
TOLD = f"no reply from https://user:{MARK}-url@host/v1 (Incorrect API key provided: {SECRETS['OPENAI_API_KEY']})"
TOLD += "; ".join(("", *SECRETS.values(), *(value.rpartition(":")[2] for value in SECRETS.values())))
"""What a library might say."""


def retrain(root: Path, *arguments: str, **more: str) -> tuple[int, str, set[tuple[str, int]]]:
    """Exit code, all that was printed, and all that the run's processes have listened on."""
    command = [sys.executable, "-m", "flows.cli.main", "retrain", *arguments]
    environment = tiny_project.environment(**SECRETS, **more)
    heard: set[tuple[str, int]] = set()
    with (root.parent / "told").open("w+") as told:
        with subprocess.Popen(command, cwd=root, env=environment, stdout=told, stderr=told) as process:
            while process.poll() is None:
                heard |= listeners(process.pid)
                time.sleep(0.2)
        told.seek(0)
        return process.returncode, told.read(), heard


def written(root: Path) -> Iterator[Path]:
    """All files that hold a mark, but params.yaml, where the user has written it."""
    for folder, _, names in os.walk(root):
        for name in names:
            file = Path(folder, name)
            if file != root / "params.yaml" and file.is_file() and MARK.encode() in file.read_bytes():
                yield file.relative_to(root)


def test_a_run_that_is_recorded_leaves_none(done: Path) -> None:
    recorded = ("-S", "machine.tracking.uri=sqlite:///mlflow.db", "-S", "evaluation.temperature=0.5")
    code, told, heard = retrain(done, *recorded)
    assert code == 0, told
    assert MARK not in told
    assert (done / "mlflow.db").stat().st_size > 100_000
    assert not list(written(done))
    assert heard, "Prefect's temporary server listens somewhere"
    assert all(is_loopback(address) for address, _ in heard), heard


def test_a_run_that_fails_and_a_server_that_is_away_leave_none(done: Path) -> None:
    """A stage logs and breaks down with secrets in its words; MLflow's address has a password and nobody answers."""
    uri = f"http://user:{MARK}-tracking@127.0.0.1:9"
    changed = ("-S", f"machine.tracking.uri={uri}", "-S", "seed=8", "--debug")
    code, told, heard = retrain(done, *changed, TINY_WARN="search@1", TINY_BUG="search@1", TINY_TELLS=TOLD)
    assert code == 1, told
    assert "graft: a fault in Graft" in told
    assert "no reply from https://***@host/v1" in told
    assert "Traceback" in told
    assert MARK not in told
    assert uri in (done / "params.yaml").read_text()
    with closing(sqlite3.connect(done / ".graft" / "prefect" / "prefect.db")) as database:
        logged = database.execute("select message from log where name = 'tasks.tiny'").fetchall()
    (message,) = logged[0]
    assert message.startswith("no reply from https://***@host/v1 (Incorrect API key provided: ***); ***; ***; ")
    assert not list(written(done))
    assert all(is_loopback(address) for address, _ in heard), heard
