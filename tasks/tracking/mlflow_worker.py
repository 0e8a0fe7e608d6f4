"""The process that talks to MLflow: JSON messages on standard input, one answer on standard output at the end.

Started by `tasks.tracking.mlflow_process`. A message that MLflow does not take (server away, database locked) is kept
and sent again with the next, so that a short outage leaves no hole.
"""

import gc
import json
import os
import queue
import signal
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, TextIO

from tasks.core.sqlite import sqlite_file
from tasks.core.write_ahead import write_ahead
from tasks.tracking.mlflow_ledger import Ledger

if TYPE_CHECKING:
    pass


RARELY = 100_000, 50, 100
"""How often garbage is looked for. What is imported is none, and Python's own numbers have it looked through often."""


def main(messages: TextIO, answers: TextIO) -> None:
    """Serve one retraining. A pipe that closes without a finish means that the run was killed."""
    inbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(messages, inbox), daemon=True).start()
    _import_mlflow()

    if (first := inbox.get()) is None:
        return
    place = json.loads(first)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(place["seconds"]))
    ledger = Ledger(place["uri"], place["experiment"])
    with write_ahead(sqlite_file(place["uri"])):
        errors = _deliver_all(inbox, ledger)
    answers.write(json.dumps({"run_id": ledger.run_id, "experiment_id": ledger.experiment, "errors": errors}) + "\n")


def _deliver_all(inbox: "queue.SimpleQueue[str | None]", ledger: Ledger) -> list[str]:
    """What comes in, as it comes; gives the errors that are left at its end."""
    errors = ledger.deliver()  # the store opens while the run gets ready
    last, closed = {"kind": "nothing"}, False
    while not closed:
        lines = [inbox.get()]
        while not inbox.empty():  # all that came meanwhile goes in one delivery
            lines.append(inbox.get())
        for line in lines:
            if line is not None:
                last = json.loads(line)
                ledger.add(last)
        closed = None in lines
        if closed and ledger.run_told and last["kind"] != "finish":
            ledger.add({"kind": "finish", "status": "KILLED", "time": last["time"], "tags": {}})
        errors = ledger.deliver()
    return errors


def _import_mlflow() -> None:
    """It takes its time; the run, too, is still getting ready."""
    gc.set_threshold(*RARELY)
    sys.modules["pandas"] = None  # type: ignore[assignment] # MLflow does without, until it makes a version of a model
    sys.modules["fastapi"] = fastapi = ModuleType("fastapi")  # a server's, of which it wants this one name here
    vars(fastapi)["HTTPException"] = Exception
    import mlflow.tracking  # noqa: F401

    del sys.modules["pandas"], sys.modules["fastapi"]


def _read(messages: TextIO, inbox: "queue.SimpleQueue[str | None]") -> None:
    for line in messages:
        inbox.put(line)
    inbox.put(None)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a service that is stopped tells all its processes: the run tells us
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as real_output:
        os.dup2(2, 1)  # what MLflow prints must not mix with the answer
        main(sys.stdin, real_output)
    sys.stderr.flush()
    os._exit(0)  # Python would take apart all that MLflow has imported
