"""What an update has done so far, kept on disk so that a killed one goes on where it stopped, bit for bit.

A checkpoint holds the trained weights, the optimiser, the schedule and the numbers of the steps that are done; how
many they are says where the update goes on. An update draws no random numbers, and its order is a function of the
seed. What else it needs is computed again from its inputs, before the weights are put back.

The file holds data alone (tasks/model/distributed/safe_serialization.py), is named by all that the result depends on
and ends with a digest of what stands before. It takes the place of the one before in one rename, so that the last good
one survives whatever happens meanwhile.
"""

import logging
import shutil
import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tasks.artifacts import write_bytes
from tasks.grpo.metrics import Metrics
from tasks.model.distributed.safe_serialization import deserialize, serialize

WRITE_INTERVAL = 30.0
"""Writing waits until so many times what it took has gone by: it costs an update about 3 % at most."""

DIGEST = 32
"""Bytes at the end of the file: sha256."""

logger = logging.getLogger(__name__)


@dataclass
class TrainingState:
    """An update under way. `weights` are the trained parameters by name, `rows` the numbers of the steps done."""

    weights: dict[str, Any]
    optimizer: Any
    schedule: Any
    rows: list[Metrics] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """All that the steps to come depend on."""
        return {
            "weights": {name: weight.detach() for name, weight in self.weights.items()},
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "rows": self.rows,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Become what `state` was taken of."""
        import torch

        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.rows = state["rows"]


class Checkpoint:
    """The one file of an update. Nobody else may write to it at the same time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cost = 0.0  # seconds that the last writing took
        self._written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The state that an earlier update of the same name has left; None where there is none that can be trusted."""
        for torn in self._path.parent.glob(f".{self._path.name}.*"):  # killed while it was written
            torn.unlink(missing_ok=True)  # several processes tidy up
        for other in sorted(self._path.parent.glob("*")):
            if other != self._path:
                logger.warning("%s: left by an update of other inputs, params or sources; not used", other)
        if not self._path.exists():
            return None
        whole = memoryview(self._path.read_bytes())
        content, digest = whole[:-DIGEST], whole[-DIGEST:]
        state = _state_in(content) if digest == _digest(content) else None
        if state is None:
            logger.warning("%s: damaged; not used, the update begins anew", self._path)
        return state

    def keep(self, training: TrainingState) -> None:
        """Write the state of the training down, where it is time to."""
        started = time.monotonic()
        if started - self._written < WRITE_INTERVAL * self._cost:
            return
        content = serialize(training.state())
        write_bytes(self._path, content + _digest(content))
        self._written = time.monotonic()
        self._cost = self._written - started

    def remove(self) -> None:
        """For an update that is written. Goes with its folder: what updates of other inputs left there."""
        shutil.rmtree(self._path.parent, ignore_errors=True)


def _state_in(content: memoryview) -> dict[str, Any] | None:
    try:
        state = deserialize(bytes(content))
    except ValueError:
        return None
    whole = isinstance(state, dict) and state.keys() == {"weights", "optimizer", "schedule", "rows"}
    return state if whole else None


def _digest(content: bytes | memoryview) -> bytes:
    return sha256(content).digest()
