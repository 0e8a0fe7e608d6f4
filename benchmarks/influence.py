"""Cost of influence beyond a forward and backward pass, compared with other implementations.

    python -m benchmarks.influence

What is measured is the influence of each row of a batch on the loss of as many held-out rows of the same length, with a
model of Qwen2's architecture, random weights and a LoRA adapter on all linear layers:

    plain        forward and backward of both batches (transformers and peft as they are): the unit
    lean         the same as Graft's update computes it (tasks/model/layers/fast_layers.py)
    influence    Graft's
    loop         a backward pass for each row, and one for validation
    vmap         torch.func: a batch of gradients, eight rows at a time, and validation
    captum, opacus, dattri, dattri-llm: libraries, where they are installed (benchmarks/support/influence_libraries.py)

Each has its own process, and they take turns, so that other load on the machine affects all alike. Except for
dattri-llm, libraries take two at most after their first, at the smaller size alone: at the larger all processes
together would hold more than 20 GB.
Processor seconds are medians; memory is the most above what the process held before its first turn, one thread.

Numbers are compared with the loop's: the relative error of all of them, as one vector; the greatest of a single one,
which is rounding where an influence is all but 0; and the share of equal signs. Of dattri-llm the batch is its own
validation, so its numbers are compared with a loop's on that, and its seconds are of half the rows.

The last line of standard output is one JSON object: `influence_ratio`, influence's seconds over plain's, and
`peak_memory_ratio`, the worse of the two sizes each; `relative_error`, the greater, and `sign_agreement` against the
loop; `dattri_llm_ratio`, dattri-llm's seconds over those of plain on its rows, null where it is not installed.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import dist, hypot
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.influence_ways import Shape, lean_pass, loop, ours, plain, samples_of, scorer_of, vmap
from benchmarks.step_sides import forget_peak, memory
from benchmarks.support.influence_libraries import LIBRARIES, SAME_BATCH, absence, is_installed, package_of
from benchmarks.support.turns import Side
from flows.process.exit_codes import exit_code

if TYPE_CHECKING:
    from rich.table import Table

WAYS = ("plain", "lean", "influence", "loop", "vmap")
SAME_BATCH_LOOP = "loop, same batch"
LIBRARY_TURNS = 2

SMALL = Shape(rows=64, tokens=128, rank=8, hidden=128, layers=4, vocabulary=2048)
LARGE = Shape(rows=32, tokens=128, rank=8, hidden=512, layers=6, vocabulary=4096)
GROWN = [replace(SMALL, rows=32), replace(SMALL, rows=128), replace(SMALL, tokens=64), replace(SMALL, tokens=256)]
GROWN += [replace(SMALL, rank=4), replace(SMALL, rank=16), replace(SMALL, rank=32)]


def way_of(name: str, shape: Shape) -> Callable[[], Any]:
    scorer, samples = scorer_of(shape, eager=name == "vmap"), samples_of(shape, 0)
    others = samples_of(shape, 1)
    if name in LIBRARIES:
        return LIBRARIES[name](scorer, samples, others)

    def both(pass_over: Callable[[Any, Any], object]) -> None:
        for rows in (samples, others):
            pass_over(scorer, rows)

    ways: dict[str, Callable[[], Any]] = {
        "plain": lambda: both(plain),
        "lean": lambda: both(lean_pass),
        "influence": lambda: ours(scorer, samples, others),
        "loop": lambda: loop(scorer, samples, others),
        "vmap": lambda: vmap(scorer, samples, others),
        SAME_BATCH_LOOP: lambda: loop(scorer, samples, samples),
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
    sides = {name: Side("benchmarks.influence", "--serve", name, json.dumps(asdict(shape))) for name in names}
    taken = {name: Turns() for name in names}
    try:
        for turn in range(turns + 1):
            for name, side in sides.items():
                if not is_limited(name) or turn <= LIBRARY_TURNS:
                    taken[name].append(side.turn())
    finally:
        for side in sides.values():
            side.end()
    return taken


def is_limited(name: str) -> bool:
    """True for the libraries that need much memory or time."""
    return name in LIBRARIES and package_of(name) != SAME_BATCH


def title_of(shape: Shape) -> str:
    return (
        f"hidden {shape.hidden}, {shape.layers} layers, vocabulary {shape.vocabulary}, LoRA r = {shape.rank}; "
        f"{shape.rows} rows of {shape.tokens} tokens"
    )


def names_of(shape: Shape) -> list[str]:
    """The ways that are measured at this size."""
    fitting = [name for name in LIBRARIES if shape == SMALL or not is_limited(name)]
    return [*WAYS, *(name for name in fitting if is_installed(package_of(name)))]


def compared(found: Sequence[float], exact: Sequence[float]) -> list[tuple[float, bool]]:
    """Relative error of each number, and True if its sign is right."""
    return [(abs(a - b) / abs(b), (a > 0) == (b > 0)) for a, b in zip(found, exact, strict=True)]


def relative_error(found: Sequence[float], exact: Sequence[float]) -> float:
    """Relative error of all numbers, as one vector."""
    return dist(found, exact) / hypot(*exact)


def agreement(name: str, sides: dict[str, Turns], same_batch: Sequence[float]) -> tuple[str, str, str]:
    """Table cells on the agreement of a way's numbers; `same_batch` are a loop's with the batch for validation."""
    found = sides[name][-1]["found"]
    if found is None or name == "loop":
        return "", "", ""
    exact = same_batch if name == SAME_BATCH else sides["loop"][-1]["found"]
    errors, signs = zip(*compared(found, exact), strict=True)
    return f"{relative_error(found, exact):.0e}", f"{max(errors):.0e}", f"{100 * sum(signs) / len(signs):.0f} %"


def table(shape: Shape, sides: dict[str, Turns], same_batch: Sequence[float]) -> "Table":
    from rich.table import Table

    made = Table(title=title_of(shape), title_justify="left")
    for column in ("", "CPU s", "× plain", "MB", "MB × plain", "rel. error", "max rel. error", "signs"):
        made.add_column(column, justify="left" if not column else "right")
    unit = sides["plain"]
    for name, side in sides.items():
        ratios = f"{side.cpu / unit.cpu:.2f}", f"{side.memory / unit.memory:.2f}"
        cells = f"{side.cpu:.3f}", ratios[0], f"{side.memory:,.0f}", ratios[1]
        made.add_row(name, *cells, *agreement(name, sides, same_batch))
    return made


def figures(both: Sequence[dict[str, Turns]]) -> dict[str, float | None]:
    """The worse of the sizes."""
    theirs = [sides[SAME_BATCH].cpu / (sides["plain"].cpu / 2) for sides in both if SAME_BATCH in sides]
    ours_and_unit = [(sides["influence"], sides["plain"]) for sides in both]
    pairs = [(sides["influence"][-1]["found"], sides["loop"][-1]["found"]) for sides in both]
    signs = [right for found, exact in pairs for _, right in compared(found, exact)]
    return {
        "influence_ratio": round(max(side.cpu / unit.cpu for side, unit in ours_and_unit), 3),
        "peak_memory_ratio": round(max(side.memory / unit.memory for side, unit in ours_and_unit), 3),
        "relative_error": float(f"{max(relative_error(*pair) for pair in pairs):.2g}"),
        "sign_agreement": sum(signs) / len(signs),
        "dattri_llm_ratio": round(max(theirs), 3) if theirs else None,
    }


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console
    from rich.table import Table

    if arguments and arguments[0] == "--serve":
        serve(arguments[1], Shape(**json.loads(arguments[2])))
        return
    parser = argparse.ArgumentParser("python -m benchmarks.influence", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=5, help="turns of each way that are counted")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    both = []
    for shape in (SMALL, LARGE):
        same_batch = measured(shape, [SAME_BATCH_LOOP], 0)[SAME_BATCH_LOOP][0]["found"]
        both.append(measured(shape, names_of(shape), options.turns))
        console.print(table(shape, both[-1], same_batch))
    if absent := absence():
        console.print(absent, markup=False, highlight=False)
    grown = Table(title="influence, as the batch, its length and the rank grow", title_justify="left")
    for column in ("", "plain, CPU s", "influence, CPU s", "× plain"):
        grown.add_column(column, justify="left" if not column else "right")
    for shape in GROWN:
        sides = measured(shape, ("plain", "influence"), max(options.turns // 2, 1))
        cells = (sides["plain"].cpu, sides["influence"].cpu, sides["influence"].cpu / sides["plain"].cpu)
        grown.add_row(f"{shape.rows} × {shape.tokens}, r = {shape.rank}", *(f"{x:.2f}" for x in cells))
    console.print(grown)
    print(json.dumps(figures(both)))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
