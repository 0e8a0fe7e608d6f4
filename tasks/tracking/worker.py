"""The process that talks to the tracker: JSON messages on standard input, one answer on standard output at the end.

Started by `tasks.tracking.worker_process`. A message that is not accepted (server away, database locked) is kept and
sent again with the next, so that a short outage leaves no gap. The end of the input without a finish means that
the run was killed; that is recorded, too.
"""

import json
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from typing import TextIO

from tasks.tracking.ledger import RunLedger


def main(messages: TextIO, answers: TextIO) -> None:
    """Serve one run."""
    store = json.loads(messages.readline())
    inbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(messages, inbox), daemon=True).start()
    ledger = RunLedger(**store)
    errors = _deliver_all(inbox, ledger)
    answers.write(json.dumps({"run_id": ledger.run_id, "experiment_id": ledger.experiment_id, "errors": errors}) + "\n")


def _deliver_all(inbox: "queue.SimpleQueue[str | None]", ledger: RunLedger) -> list[str]:
    """Deliver messages as they arrive; returns the errors of those that the tracker did not accept in the end."""
    errors = ledger.deliver()  # opens the tracker
    last, closed = {"kind": "nothing"}, False
    while not closed:
        lines = _arrived(inbox, ledger.pause)
        for line in lines:
            if line is not None:
                last = json.loads(line)
                ledger.add(last)
        closed = None in lines
        if closed and ledger.has_run and last["kind"] != "finish":
            ledger.add({"kind": "finish", "status": "KILLED", "time": last["time"], "tags": {}})
        errors = ledger.deliver()
    return errors


def _arrived(inbox: "queue.SimpleQueue[str | None]", seconds: float | None) -> list[str | None]:
    """All that has arrived, for one delivery; waits for the first, at most `seconds`."""
    lines = []
    with suppress(queue.Empty):
        lines.append(inbox.get(timeout=seconds))
        while True:
            lines.append(inbox.get_nowait())
    return lines


def _read(messages: TextIO, inbox: "queue.SimpleQueue[str | None]") -> None:
    for line in messages:
        inbox.put(line)
    inbox.put(None)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a service that stops signals all its processes; the run ends us
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as real_output:
        os.dup2(2, 1)  # what a tracker prints must not mix with the answer
        main(sys.stdin, real_output)
