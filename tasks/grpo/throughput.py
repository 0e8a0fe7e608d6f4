"""Throughput of an update."""

import time


class ThroughputMeter:
    """Completion tokens per second since construction. For display alone: times differ from run to run."""

    def __init__(self) -> None:
        self._tokens, self._started = 0.0, time.monotonic()

    def add(self, tokens: float) -> None:
        """Count a finished step of `tokens` completion tokens."""
        self._tokens += tokens

    @property
    def tokens_per_second(self) -> float:
        return self._tokens / max(time.monotonic() - self._started, 1e-9)
