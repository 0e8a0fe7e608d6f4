"""A phase of `benchmarks.gpu` in its process: figures, deadline, and clocks that wait for the card.

    python -m benchmarks.gpu.phase PHASE FOLDER MODEL tiny|full

Libraries are loaded first, then the process waits for a line with its seconds: no phase is measured while those of
another load. Each line of standard output is a JSON object of figures, the first one is empty.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TextIO

from benchmarks.gpu.policies import SHAPES, TINY
from benchmarks.step_sides import Shape
from flows.process.settings import set_environment

LIBRARIES = ("torch", "transformers.models.qwen2.modeling_qwen2", "transformers.generation", "peft")


@dataclass
class Phase:
    """A running phase. `arguments`: the words of its name after the first, as in step/0.5b."""

    arguments: list[str]
    folder: Path  # of tables
    model: str
    is_tiny: bool
    out: TextIO
    end: float = float("inf")

    @property
    def shape(self) -> Shape:
        return TINY if self.is_tiny else SHAPES[self.arguments[0]]

    @property
    def left(self) -> float:
        """Seconds until the process is ended."""
        return self.end - time.monotonic()

    def figure(self, prefix: str = "", /, **figures: object) -> None:
        """Hand figures over at once: a phase that is cut off keeps them. `prefix`: of their names."""
        rounded = {prefix + name: float(f"{x:.5g}") if isinstance(x, float) else x for name, x in figures.items()}
        print(json.dumps(rounded), file=self.out, flush=True)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A block whose error is a figure and does not end the phase."""
        import torch

        try:
            yield
        except Exception as error:  # noqa: BLE001  of any library
            traceback.print_exc()
            self.figure(**{f"{name}_error": f"{type(error).__name__}: {str(error)[:200]}"})
        torch.cuda.empty_cache()


def cost_of(work: Callable[[], object]) -> tuple[float, float]:
    """Wall seconds until the card has done the work, and `peak_gib`."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    peak_gib()
    start = time.perf_counter()
    work()
    peak = peak_gib()
    return time.perf_counter() - start, peak


def peak_gib() -> float:
    """Once the card is idle: the most memory that torch has allocated there since the last `cost_of`; 0 on a CPU."""
    import torch

    if not torch.cuda.is_available():
        return 0.0
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**30


def median_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Of some runs after a first one."""
    work()
    return median(cost_of(work)[0] for _ in range(repeats))


def main(name: str, folder: str, model: str, size: str) -> None:
    """Load, wait, and take the figures."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print stays out of the figures
    set_environment()
    kind, *arguments = name.split("/")
    for library in (*LIBRARIES, *(["trl.trainer.grpo_trainer"] if kind == "trl" else [])):
        import_module(library)
    run = import_module(f"benchmarks.gpu.{kind}").run
    phase = Phase(arguments, Path(folder), model, size == "tiny", out)
    phase.figure()
    phase.end = time.monotonic() + float(sys.stdin.readline())
    run(phase)


if __name__ == "__main__":
    main(*sys.argv[1:])
