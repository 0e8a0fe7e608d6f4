"""Cost of influence beyond a forward and backward pass.

    python -m benchmarks.influence

What is measured is the influence of each row of a batch on the loss of as many held-out rows of the same length, with a
model of Qwen2's architecture, random weights and a LoRA adapter on all linear layers:

    plain        forward and backward of both batches (transformers and peft as they are): the unit
    influence    Graft's
    loop         a backward pass for each row, and one for validation

Each has its own process, and they take turns, so that other load on the machine affects all alike. Processor seconds
are medians; memory is the most above what the process held before its first turn, one thread. Numbers are compared
with the loop's: the relative error of all of them, as one vector; the greatest of a single one, which is rounding where
an influence is all but 0; and the share of equal signs. docs/results/2026-11-27-benchmarks.md has torch.func and four
libraries beside them.

The last line of standard output is one JSON object: `influence_ratio`, influence's seconds over plain's, and
`peak_memory_ratio`, the worse of the two sizes each; `relative_error`, the greater, and `sign_agreement` against the
loop.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import dist, hypot
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.step_sides import Shape as StepShape
from benchmarks.step_sides import forget_peak, memory, model_of
from benchmarks.support.plain_influence import loop, plain
from benchmarks.support.turns import take_turns
from flows.process.exit_codes import exit_code

if TYPE_CHECKING:
    from rich.table import Table

    from tasks.model.sample import Sample
    from tasks.model.scoring.scorer import Scorer

PROMPT = 32  # tokens of each row that are its prompt


@dataclass(frozen=True)
class Shape:
    """Size of the model and the batch."""

    rows: int
    tokens: int  # of a row, its prompt included
    rank: int
    hidden: int
    layers: int
    vocabulary: int


def scorer_of(shape: Shape) -> "Scorer":
    """A model of this shape; all rows are one micro-batch."""
    import torch

    from tasks.model.checkpoints.lora import attach_adapter
    from tasks.model.scoring.scorer import Scorer

    inner = shape.hidden * 11 // 4
    model = model_of(StepShape(PROMPT, False, 1, shape.vocabulary, shape.hidden, shape.layers, inner))
    model = attach_adapter(model, shape.rank, 16.0, 0).eval()
    with torch.no_grad():  # a fresh adapter's B is 0, and the gradient of its A
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.02)
    return Scorer(model, 0, 1.0, "rows", tokens=2 * shape.rows * shape.tokens)


def samples_of(shape: Shape, seed: int) -> "list[Sample]":
    """Random rows with advantages of both signs."""
    import random

    from tasks.model.sample import Sample

    rng = random.Random(seed)

    def drawn(length: int) -> tuple[int, ...]:
        return tuple(rng.randrange(3, shape.vocabulary) for _ in range(length))

    return [
        Sample(str(row), 0, drawn(PROMPT), drawn(shape.tokens - PROMPT), (), rng.choice([-1.0, 1.0]))
        for row in range(shape.rows)
    ]


def ours(scorer: "Scorer", samples: "Sequence[Sample]", validation: "Sequence[Sample]") -> list[float]:
    from tasks.objective.token_weights import TokenWeights
    from tasks.select.losses import Validation
    from tasks.select.tracin import influences

    averaging = TokenWeights("dapo", longest=1)
    loss = Validation(validation, [s.advantage for s in validation])
    return [float(s.influence or 0) for s in influences(scorer, samples, averaging, loss).samples]


WAYS = ("plain", "influence", "loop")

SMALL = Shape(rows=64, tokens=128, rank=8, hidden=128, layers=4, vocabulary=2048)
LARGE = Shape(rows=32, tokens=128, rank=8, hidden=512, layers=6, vocabulary=4096)


def way_of(name: str, shape: Shape) -> Callable[[], Any]:
    scorer, samples, others = scorer_of(shape), samples_of(shape, 0), samples_of(shape, 1)

    def plain_passes() -> None:
        for rows in (samples, others):
            plain(scorer, rows)

    ways: dict[str, Callable[[], Any]] = {
        "plain": plain_passes,
        "influence": lambda: ours(scorer, samples, others),
        "loop": lambda: loop(scorer, samples, others),
    }
    return ways[name]


def serve(name: str, shape: Shape) -> None:
    """Take a turn for each line that comes in."""
    import torch

    torch.set_num_threads(1)
    turn = way_of(name, shape)
    out = os.fdopen(os.dup(1), "w")  # what libraries print stays out of the answers
    os.dup2(2, 1)
    held: float | None = None
    for _ in sys.stdin:
        if held is None:
            forget_peak()
            held = memory()[0]
        start = time.process_time()
        found = turn()
        seconds = time.process_time() - start
        print(json.dumps({"cpu": seconds, "memory": memory()[1] - held, "found": found}), file=out, flush=True)


class Turns(list[dict[str, Any]]):
    """Measurements of one way; the first turn is not counted."""

    @property
    def cpu(self) -> float:
        return float(median(turn["cpu"] for turn in self[1:]))

    @property
    def memory(self) -> float:
        return max(float(turn["memory"]) for turn in self)


def measured(shape: Shape, names: Sequence[str], turns: int) -> dict[str, Turns]:
    """Each way, by turns; the first of each is not counted."""
    sides = {name: ("--serve", name, json.dumps(asdict(shape))) for name in names}
    return {name: Turns(taken) for name, taken in take_turns("benchmarks.influence", sides, turns + 1).items()}


def title_of(shape: Shape) -> str:
    return (
        f"hidden {shape.hidden}, {shape.layers} layers, vocabulary {shape.vocabulary}, LoRA r = {shape.rank}; "
        f"{shape.rows} rows of {shape.tokens} tokens"
    )


def compared(found: Sequence[float], exact: Sequence[float]) -> list[tuple[float, bool]]:
    """Relative error of each number, and True if its sign is right."""
    return [(abs(a - b) / abs(b), (a > 0) == (b > 0)) for a, b in zip(found, exact, strict=True)]


def relative_error(found: Sequence[float], exact: Sequence[float]) -> float:
    """Relative error of all numbers, as one vector."""
    return dist(found, exact) / hypot(*exact)


def agreement(name: str, sides: dict[str, Turns]) -> tuple[str, str, str]:
    """Table cells on the agreement of a way's numbers with the loop's."""
    found, exact = sides[name][-1]["found"], sides["loop"][-1]["found"]
    if found is None or name == "loop":
        return "", "", ""
    errors, signs = zip(*compared(found, exact), strict=True)
    return f"{relative_error(found, exact):.0e}", f"{max(errors):.0e}", f"{100 * sum(signs) / len(signs):.0f} %"


def table(shape: Shape, sides: dict[str, Turns]) -> "Table":
    from rich.table import Table

    made = Table(title=title_of(shape), title_justify="left")
    for column in ("", "CPU s", "× plain", "MB", "MB × plain", "rel. error", "max rel. error", "signs"):
        made.add_column(column, justify="left" if not column else "right")
    unit = sides["plain"]
    for name, side in sides.items():
        ratios = f"{side.cpu / unit.cpu:.2f}", f"{side.memory / unit.memory:.2f}"
        cells = f"{side.cpu:.3f}", ratios[0], f"{side.memory:,.0f}", ratios[1]
        made.add_row(name, *cells, *agreement(name, sides))
    return made


def figures(both: Sequence[dict[str, Turns]]) -> dict[str, float]:
    """The worse of the sizes."""
    ours_and_unit = [(sides["influence"], sides["plain"]) for sides in both]
    pairs = [(sides["influence"][-1]["found"], sides["loop"][-1]["found"]) for sides in both]
    signs = [right for found, exact in pairs for _, right in compared(found, exact)]
    return {
        "influence_ratio": round(max(side.cpu / unit.cpu for side, unit in ours_and_unit), 3),
        "peak_memory_ratio": round(max(side.memory / unit.memory for side, unit in ours_and_unit), 3),
        "relative_error": float(f"{max(relative_error(*pair) for pair in pairs):.2g}"),
        "sign_agreement": sum(signs) / len(signs),
    }


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console

    if arguments and arguments[0] == "--serve":
        serve(arguments[1], Shape(**json.loads(arguments[2])))
        return
    parser = argparse.ArgumentParser("python -m benchmarks.influence", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=5, help="turns of each way that are counted")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    both = []
    for shape in (SMALL, LARGE):
        both.append(measured(shape, WAYS, options.turns))
        console.print(table(shape, both[-1]))
    print(json.dumps(figures(both)))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
