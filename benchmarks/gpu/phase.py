"""A phase of `benchmarks.gpu` in its process: figures, deadline, and clocks that wait for the card.

    python -m benchmarks.gpu.phase PHASE FOLDER MODEL tiny|full

Libraries are loaded at once, then the process waits for a line with its seconds, so that no other phase is measured
while they load. Each line of standard output is one JSON object of figures, the first is empty; all else that is
printed goes to standard error.
"""

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TextIO

from benchmarks.gpu.policies import SHAPES, TINY
from benchmarks.step_sides import Shape
from flows.process.settings import set_environment

MODULES = {
    name: f"benchmarks.gpu.{name}" for name in ("env", "decode", "step", "trl", "laws", "influence", "profile", "chain")
}
"""The first word of a phase's name → the module whose `run(phase)` takes its figures."""

LIBRARIES = ("torch", "transformers.models.qwen2.modeling_qwen2", "transformers.generation", "peft")


@dataclass
class Phase:
    """A running phase. `arguments`: the words of its name after the first, as in step/0.5b."""

    arguments: list[str]
    folder: Path  # for files
    model: str
    is_tiny: bool
    out: TextIO
    end: float = field(default_factory=lambda: time.monotonic() + 3600)

    @property
    def shape(self) -> Shape:
        return TINY if self.is_tiny else SHAPES[self.arguments[0]]

    @property
    def left(self) -> float:
        """Seconds until the process is ended."""
        return self.end - time.monotonic()

    def figure(self, **figures: object) -> None:
        """Hand figures over at once: a phase that is cut off keeps them."""
        rounded = {name: float(f"{x:.5g}") if isinstance(x, float) else x for name, x in figures.items()}
        print(json.dumps(rounded), file=self.out, flush=True)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A block whose error is a figure and does not end the phase."""
        import torch

        try:
            yield
        except Exception as error:  # noqa: BLE001  of any library, on a card that nobody watches
            traceback.print_exc()
            self.figure(**{f"{name}_error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"})
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def seconds_of(work: Callable[[], object]) -> float:
    """Wall seconds until the card has done the work."""
    synchronize()
    start = time.perf_counter()
    work()
    synchronize()
    return time.perf_counter() - start


def median_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Of some runs after a first one."""
    work()
    return median(seconds_of(work) for _ in range(repeats))


def synchronize() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def forget_peak() -> None:
    """Let the peak of the card's memory be what is allocated now."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_gib() -> float:
    """The most memory that torch has allocated on the card since `forget_peak`; 0 on a CPU."""
    import torch

    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0


def main(name: str, folder: str, model: str, size: str) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    set_environment()
    kind, *arguments = name.split("/")
    for library in (*LIBRARIES, *(["trl.trainer.grpo_trainer"] if kind == "trl" else []), MODULES[kind]):
        import_module(library)
    phase = Phase(arguments, Path(folder), model, size == "tiny", out)
    phase.figure()
    phase.end = time.monotonic() + float(sys.stdin.readline())
    import_module(MODULES[kind]).run(phase)


if __name__ == "__main__":
    main(*sys.argv[1:])
