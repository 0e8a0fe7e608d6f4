"""Cost of a complete GRPO step, sampling and update, of Graft and of TRL's trainer.

    python -m benchmarks.grpo_step

Both do the same work (see benchmarks/step_sides.py), each in its own process, and alternate step by step, so that other
load on the machine affects both. Prompts of 32 and 256 tokens; completions all of 64 tokens
(full), or most of them short and one of 64 (skewed); one thread and two; and the same once more with a larger model.
TRL is as shipped but for bf16 and gradient checkpointing, which are switched off because they are slower on a CPU.

Figures are medians over the steps: processor seconds, wall seconds, tokens drawn per wall second, the share of each
part in the processor time, and the most memory above what the process held before its first step. The last line of
standard output is one JSON object: TRL's processor time over Graft's with one thread and the small model, and Graft's
memory over TRL's, the worst of the four.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.step_sides import Shape, lengths_of
from benchmarks.support.turns import take_turns
from flows.process.exit_codes import exit_code

if TYPE_CHECKING:
    from rich.table import Table

SMALL = {"hidden": 128, "layers": 4, "vocabulary": 1024, "intermediate": 352}
LARGE = {"hidden": 256, "layers": 6, "vocabulary": 8192, "intermediate": 704}
SIDES = ("trl", "graft")
WARM = 1  # steps before any is counted

Steps = list[dict[str, Any]]


@dataclass(frozen=True)
class StepStatistics:
    """Medians of one side over its steps; the peak of memory is the largest."""

    cpu: float
    wall: float
    memory: float  # MB
    parts: dict[str, float]

    @classmethod
    def of(cls, steps: Steps) -> "StepStatistics":
        parts = {name: median(step["parts"][name] for step in steps) for name in steps[0]["parts"]}
        cpu, wall = (median(step[name] for step in steps) for name in ("cpu", "wall"))
        return cls(cpu, wall, max(step["memory"] for step in steps), parts)


def measure(shape: Shape, steps: int) -> dict[str, StepStatistics]:
    """Both sides, by turns."""
    sides = {name: (name, json.dumps(asdict(shape))) for name in SIDES}
    taken = take_turns("benchmarks.step_sides", sides, WARM + steps)
    return {name: StepStatistics.of(rows[WARM:]) for name, rows in taken.items()}


def shapes(model: dict[str, Any], threads: Sequence[int]) -> list[Shape]:
    return [Shape(p, skewed, t, **model) for t in threads for p in (32, 256) for skewed in (False, True)]


def name_of(shape: Shape) -> str:
    return f"p{shape.prompt}_{'skewed' if shape.skewed else 'full'}"


def table(title: str, rows: dict[Shape, dict[str, StepStatistics]], steps: int) -> "Table":
    """Two lines a shape: TRL, then Graft."""
    from rich.table import Table

    made = Table(title=title, title_justify="left")
    for column in ("prompt", "lengths", "threads", "", "CPU s", "wall s", "tokens/s", "MB", "parts", "CPU ×", "wall ×"):
        made.add_column(column, justify="right" if column not in ("lengths", "", "parts") else "left")
    for shape, sides in rows.items():
        tokens = median(sum(lengths_of(shape, step)) for step in range(WARM, WARM + steps))
        for name, side in sides.items():
            parts = ", ".join(f"{part} {seconds / side.cpu:.0%}" for part, seconds in side.parts.items())
            what = [str(shape.prompt), "skewed" if shape.skewed else "full", str(shape.threads)]
            ratios = [f"{getattr(sides['trl'], of) / getattr(side, of):.1f}" for of in ("cpu", "wall")]
            made.add_row(
                *(what if name == "trl" else ["", "", ""]),
                name,
                f"{side.cpu:.3f}",
                f"{side.wall:.3f}",
                f"{tokens / side.wall:,.0f}",
                f"{side.memory:,.0f}",
                parts,
                *(ratios if name != "trl" else ["", ""]),
            )
    return made


def figures(rows: dict[Shape, dict[str, StepStatistics]]) -> dict[str, float]:
    """Of the shapes with one thread."""
    single = {shape: sides for shape, sides in rows.items() if shape.threads == 1}
    numbers = {f"step_speedup_{name_of(shape)}": s["trl"].cpu / s["graft"].cpu for shape, s in single.items()}
    numbers["peak_memory_ratio"] = max(s["graft"].memory / s["trl"].memory for s in single.values())
    return {name: round(number, 3) for name, number in numbers.items()}


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.grpo_step", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=7, help="steps that are counted for each side")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="torch threads; 1 makes the figures")
    parser.add_argument("--small-only", action="store_true", help="leave the larger model out")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 150)
    small = {shape: measure(shape, options.steps) for shape in shapes(SMALL, [*{1, *options.threads}])}
    console.print(table("hidden 128, 4 layers, vocabulary 1024, LoRA r = 8; 8 × 8 completions", small, options.steps))
    if not options.small_only:
        steps = max(options.steps // 3, 1)
        large = {shape: measure(shape, steps) for shape in shapes(LARGE, [1])}
        console.print(table("hidden 256, 6 layers, vocabulary 8192, LoRA r = 8; 8 × 8 completions", large, steps))
    print(json.dumps(figures(small)))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
