"""System metrics of a run by MLflow's own monitor: processor, memory, disk, network and GPU of its machine."""

import logging
from typing import Any

SECONDS = 10.0
"""Between two samples, unless MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL is set. Each costs MLflow two calls."""

logger = logging.getLogger(__name__)


class SystemMetrics:
    """A thread that measures from `start` to `stop`; a machine that it cannot measure is a warning."""

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
