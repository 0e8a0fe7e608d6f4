"""System metrics of a run in MLflow: processor, memory, disk, network and GPU of its machine, by MLflow's own monitor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 10.0
"""Between two samples: each costs MLflow two calls."""
