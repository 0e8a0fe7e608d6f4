"""Checkpoint of a training, so that a killed update or warm start resumes where it stopped, bit for bit.

A checkpoint holds the trained weights, the optimiser, the schedule and the metrics of the steps done, whose number is
the step to resume at. A training draws no random numbers, and its order is a function of the seed. Everything else is
computed again from its inputs, before the weights are restored.

The file holds data alone (torch's `weights_only`), is named by all that the result depends on and ends with a digest of
its content. It replaces the previous one by a rename, so that a complete one always exists.
"""

import logging
import shutil
import time
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from tasks.artifacts import write_bytes

WRITE_INTERVAL = 30.0
"""Pause between writes, as a multiple of the time that the last one took: a training loses 3 % at most."""

DIGEST = 32
"""Bytes at the end of the file: sha256."""

logger = logging.getLogger(__name__)


@dataclass
class TrainingState:
    """State of a training. `weights` are the trained parameters by name, `rows` the metrics of the steps done."""

    weights: dict[str, Any]
    optimizer: Any
    schedule: Any
    rows: list[dict[str, float]] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """Everything that later steps depend on."""
        return {
            "weights": {name: weight.detach() for name, weight in self.weights.items()},
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "rows": self.rows,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state that `state` gave: weights, optimiser, schedule and rows."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.rows = state["rows"]


class Checkpoint:
    """The one file of a training; it has a single writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cost = 0.0  # seconds that the last writing took
        self._written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The state that an earlier training of the same name has left; None where there is none or it is damaged."""
        for torn in self._path.parent.glob(f".{self._path.name}.*"):  # killed while it was written
            torn.unlink(missing_ok=True)  # several processes tidy up
        for other in sorted(self._path.parent.glob("*")):
            if other != self._path:
                logger.warning("%s: left by a training of other inputs, params or sources; not used", other)
        if not self._path.exists():
            return None
        whole = memoryview(self._path.read_bytes())
        content, digest = whole[:-DIGEST], whole[-DIGEST:]
        state = _state_in(content) if digest == sha256(content).digest() else None
        if state is None:
            logger.warning("%s: damaged; not used, the training starts from the beginning", self._path)
        return state

    def keep(self, training: TrainingState) -> None:
        """Write the state if the pause is over."""
        started = time.monotonic()
        if started - self._written < WRITE_INTERVAL * self._cost:
            return
        stream = BytesIO()
        torch.save(training.state(), stream)
        content = stream.getvalue()
        write_bytes(self._path, content + sha256(content).digest())
        self._written = time.monotonic()
        self._cost = self._written - started

    def remove(self) -> None:
        """Remove the folder, with the checkpoints of trainings of other inputs."""
        shutil.rmtree(self._path.parent, ignore_errors=True)


def _state_in(content: memoryview) -> dict[str, Any] | None:
    try:
        state = torch.load(BytesIO(content), weights_only=True)
    except Exception:  # noqa: BLE001  (of any kind for bytes that it did not write)
        return None
    whole = isinstance(state, dict) and state.keys() == {"weights", "optimizer", "schedule", "rows"}
    return state if whole else None
