"""The process that talks to MLflow: JSON messages on standard input, one answer on standard output at the end.

Started by `tasks.tracking.mlflow_process`. A message that MLflow does not accept (server away, database locked) is kept
and sent again with the next, so that a short outage leaves no gap. The end of the input without a finish means that
the run was killed; that is recorded, too.
"""

import json
import logging
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO

from tasks.tracking.mlflow_ledger import MlflowLedger

SECONDS = 10.0
"""Between two samples of the machine, unless MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL is set. Each takes two calls."""

logger = logging.getLogger(__name__)


def main(messages: TextIO, answers: TextIO) -> None:
    """Serve one run."""
    store = json.loads(messages.readline())
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(store["seconds"]))
    inbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(messages, inbox), daemon=True).start()
    ledger = MlflowLedger(store["uri"], store["experiment"])
    errors = _deliver_all(inbox, ledger, SystemMetrics(store["uri"]))
    answers.write(json.dumps({"run_id": ledger.run_id, "experiment_id": ledger.experiment, "errors": errors}) + "\n")


def _deliver_all(
    inbox: "queue.SimpleQueue[str | None]", ledger: MlflowLedger, system_metrics: "SystemMetrics"
) -> list[str]:
    """Deliver messages as they arrive; returns the errors of those that MLflow did not accept in the end."""
    errors = ledger.deliver()  # opens the store
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
        if closed or last["kind"] == "finish":
            system_metrics.stop()
        errors = ledger.deliver()
        if ledger.run_id:
            system_metrics.start(ledger.run_id)
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


class SystemMetrics:
    """MLflow's own monitor of processor, memory, disk, network and GPU: a thread, from `start` to `stop`.

    A machine that it cannot measure is a warning.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._monitor: Any = None
        self._over = False

    def start(self, run_id: str) -> None:
        """Measure for this run, once."""
        if self._monitor or self._over:
            return
        import psutil
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        try:
            psutil.cpu_percent()  # the first answer of a process is 0
            self._monitor = SystemMetricsMonitor(run_id, sampling_interval=SECONDS, tracking_uri=self._uri)
            self._monitor.start()
        except Exception as error:  # noqa: BLE001 (psutil and the GPU's library raise any where they find no counters)
            self._over = True
            logger.warning("no system metrics: %s", error)

    def stop(self) -> None:
        """End the thread and log what it has."""
        if self._monitor and not self._over:
            self._monitor.finish()
        self._over = True


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a service that stops signals all its processes; the run ends us
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as real_output:
        os.dup2(2, 1)  # what MLflow prints must not mix with the answer
        main(sys.stdin, real_output)
