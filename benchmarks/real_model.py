"""Learning and speed with a pretrained model of 135M parameters: the preset `smollm2`.

    python -m benchmarks.real_model --seeds 0 1 2
    python -m benchmarks.real_model --gsm8k train.jsonl test.jsonl    # benchmarks/gsm8k.py instead

Learning: the complete chain, once per seed, as `make retrain-real` runs it, in a copy of the project. With `--keep` the
copies stay, and a benchmark that was ended goes on where it was.

Speed, with the same model and one thread: a complete GRPO step (benchmarks/step_sides.py) of Graft and of TRL's
trainer, which do the same work by turns; and sampling a batch with Graft and with CTranslate2 (float32). The medians
leave the first turn out, which is told apart for the step. `common`: tokens that all prompts of a step begin with, as
worked examples are. With one counted turn this takes 25 minutes and 18 GB of memory, nearly all of it TRL's.

The last line of standard output is one JSON object. Needs `make smollm2`, and for the peers `trl` and `ctranslate2`
(pip install -e '.[test,bench]').
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks import gsm8k
from benchmarks.learning import LearningRun, learn
from benchmarks.step_sides import Shape
from benchmarks.support.decode_sides import Decoding
from benchmarks.support.small_model import BASE
from benchmarks.support.turns import Side
from flows.cli.presets import preset
from flows.process.exit_codes import exit_code
from tasks.errors import GraftError
from tasks.model.gguf import resolve_base

if TYPE_CHECKING:
    from rich.table import Table

PRESET = preset("smollm2")
MODEL = BASE[0].partition("=")[2]
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


def take_turns(module: str, names: Sequence[str], argument: Any, count: int) -> dict[str, Turns]:
    """`count` turns of each side, by turns."""
    sides = {name: Side(module, name, json.dumps(asdict(argument))) for name in names}
    taken: dict[str, Turns] = {name: [] for name in names}
    try:
        for _ in range(count):
            for name, side in sides.items():
                taken[name].append(side.turn())
    finally:
        for side in sides.values():
            side.end()
    return taken


def learning_figures(runs: Sequence[LearningRun]) -> dict[str, float]:
    """The means over the seeds, and the smallest gains of any."""
    greedy, unseen, most = "pass_at_1_greedy", "pass_at_1_greedy_unseen", "pass_at_10"
    return {
        "greedy_gain": fmean(run.gain(greedy) for run in runs),
        "greedy_gain_worst": min(run.gain(greedy) for run in runs),
        "unseen_gain": fmean(run.gain(unseen) for run in runs),
        "unseen_gain_worst": min(run.gain(unseen) for run in runs),
        "pass_at_10_gain": fmean(run.gain(most) for run in runs),
        "pass_at_10_gain_worst": min(run.gain(most) for run in runs),
        "cut_share_before": fmean(run.before["cut"] for run in runs),
        "cut_share_after": fmean(run.after["cut"] for run in runs),
        "minutes": fmean(run.seconds for run in runs) / 60,
    }


def step_figures(steps: Sequence[dict[str, Turns]]) -> dict[str, float]:
    """TRL's processor seconds over Graft's, and Graft's memory over TRL's; the worst of the shapes."""

    def cpu(turns: Turns) -> float:
        return float(median(turn["cpu"] for turn in turns[1:]))

    return {
        "step_speedup_first": min(sides["trl"][0]["cpu"] / sides["graft"][0]["cpu"] for sides in steps),
        "step_speedup": min(cpu(sides["trl"]) / cpu(sides["graft"]) for sides in steps),
        "peak_memory_ratio": max(sides["graft"][-1]["memory"] / sides["trl"][-1]["memory"] for sides in steps),
    }


def decode_figures(turns: dict[str, Turns]) -> dict[str, float]:
    """Tokens a processor second of each side, and Graft's over the peer's."""
    speeds = {name: median(turn["tokens"] / turn["cpu"] for turn in own[1:]) for name, own in turns.items()}
    return {
        "decode_tokens_per_second": speeds["graft"],
        "peer_tokens_per_second": speeds["ctranslate2"],
        "decode_vs_peer": speeds["graft"] / speeds["ctranslate2"],
    }


def learning_table(runs: dict[int, LearningRun]) -> "Table":
    """A row a seed: before → after."""
    from rich.table import Table

    titles = {
        "pass_at_1_greedy": "greedy",
        "pass_at_1_greedy_seen": "greedy, seen templates",
        "pass_at_1_greedy_unseen": "greedy, new templates",
        "sampled_mean": "sampled",
        "pass_at_10": "pass@10",
        "cut": "cut",
    }
    table = Table(title="test problems solved, before → after", title_justify="left")
    for title in ("seed", *titles.values(), "minutes"):
        table.add_column(title, justify="right")
    for seed, run in runs.items():
        changes = [f"{run.before[name]:.3f} → {run.after[name]:.3f}" for name in titles]
        table.add_row(str(seed), *changes, f"{run.seconds / 60:.1f}")
    return table


def step_table(rows: dict[Shape, dict[str, Turns]]) -> "Table":
    """Two rows a shape: TRL, then Graft."""
    from rich.table import Table

    table = Table(title="a GRPO step, processor seconds of one thread, prompts of 180 tokens", title_justify="left")
    for column in ("prompts × completions × tokens", "common", "", "first", "median", "MB", "first ×", "median ×"):
        table.add_column(column, justify="left" if column == "" else "right")
    for shape, sides in rows.items():
        figures = step_figures([sides])
        work = f"{shape.prompts} × {shape.completions} × {shape.longest}"
        for name, turns in sides.items():
            first, later = turns[0]["cpu"], median(turn["cpu"] for turn in turns[1:])
            ratios = [f"{figures[key]:.1f}" for key in ("step_speedup_first", "step_speedup")]
            table.add_row(
                *((work, str(shape.common)) if name == "trl" else ("", "")),
                *(name, f"{first:.1f}", f"{later:.1f}", f"{turns[-1]['memory']:,.0f}"),
                *(ratios if name == "graft" else ["", ""]),
            )
    return table


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console

    options = _options(arguments)
    if options.gsm8k:
        kept = ["--keep", str(options.keep)] if options.keep else []
        seed = [f"--seed={each}" for each in options.seeds[:1]]
        settings = [f"-S{assignment}" for assignment in options.assignments]
        gsm8k.main([*options.gsm8k, *kept, *seed, *settings, *(["-v"] if options.verbose else [])])
        return
    folder = resolve_base(MODEL)
    if options.steps and not find_spec("ctranslate2"):
        raise GraftError("benchmark: no package ctranslate2; pip install -e '.[bench]', or leave out with --steps 0")
    console = Console(width=None if sys.stdout.isatty() else 150)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="graft-real-model-") as temporary:
        runs: dict[int, LearningRun] = {}
        for seed in options.seeds:
            root = (options.keep or Path(temporary)) / f"seed-{seed}"
            runs[seed] = learn(root, seed, [*PRESET, *options.assignments], options.verbose)
    if runs:
        console.print(learning_table(runs))
        figures |= learning_figures(list(runs.values()))
    if options.steps:
        names = ("trl", "graft")
        rows = {s: take_turns("benchmarks.step_sides", names, s, 1 + options.steps) for s in step_shapes(folder)}
        console.print(step_table(rows))
        decoding = Decoding(folder, rows=64, prompt=32, tokens=64, threads=1)
        decoded = take_turns("benchmarks.support.decode_sides", ("ctranslate2", "graft"), decoding, 1 + options.steps)
        figures |= step_figures(list(rows.values())) | decode_figures(decoded)
    print(json.dumps({name: round(number, 4) for name, number in figures.items()} | {"seeds": list(runs)}))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.real_model", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], metavar="SEED", help="none: speed alone")
    parser.add_argument("--steps", type=int, default=1, help="turns that are counted for speed; 0: learning alone")
    parser.add_argument("-S", dest="assignments", action="append", default=[], metavar="KEY=VALUE", help="set a param")
    parser.add_argument("--gsm8k", nargs=2, metavar=("TRAIN", "TEST"), help="train and measure on GSM8K instead")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the workspaces and logs in this folder")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the runs print")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
