"""Chess: the preset `chess` once per seed in a copy of the project, and the rules against python-chess.

    python -m benchmarks.chess --seeds 0 1 2

Everything is as the preset sets it except for the seed and what `-S` sets. Sampled is the mean over the samples of a
test problem (at `evaluation.temperature`), greedy at temperature 0. The last line of standard output is one JSON
object: `best_move_ratio`, after / before, and `legal_gain` of task P, sampled; `exact_gain` of task A, sampled; the
gains of both greedy; `rule_differences` on --positions positions; `canonical_reward_share`, the share of the test
problems whose canonical completion earns all the weights of its task; `minutes`, the median of a run's.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from benchmarks.chess.rules_check import differences
from benchmarks.learning import LearningRun, learn, parser_of
from flows.cli.presets import preset
from flows.process.exit_codes import exit_code
from recipes.chess.terms import TERMS, is_analysis
from tasks.artifacts import read_jsonl
from tasks.environments.measures import PREFIX
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.records import Problem

OF_ANALYSES = ("best", "candidates", "evaluations")
"""Terms of task P; the others are of A."""

SHOWN = ("p_legal", "p_best_move", "p_top5_overlap", "a_exact", "a_lenient", "a_reward_right", "a_terminated_right")
KINDS = ("sampled", "greedy", "sampled_unseen", "greedy_unseen")


def figures(runs: Sequence[LearningRun]) -> dict[str, float]:
    """The means over the runs by their names in the last line; of a task that is not there none."""

    def mean(name: str, when: str) -> float:
        return fmean(getattr(run, when)[f"{PREFIX}{name}"] for run in runs)

    def gain(name: str) -> float:
        return mean(name, "after") - mean(name, "before")

    found: dict[str, float] = {}
    if all(f"{PREFIX}p_legal/sampled" in run.after for run in runs):
        found["best_move_ratio"] = mean("p_best_move/sampled", "after") / mean("p_best_move/sampled", "before")
        found["legal_gain"] = gain("p_legal/sampled")
        found["greedy_best_gain"] = gain("p_best_move/greedy")
    if all(f"{PREFIX}a_exact/sampled" in run.after for run in runs):
        found["exact_gain"] = gain("a_exact/sampled")
        found["greedy_exact_gain"] = gain("a_exact/greedy")
    found["minutes"] = median(run.seconds for run in runs) / 60
    return {name: round(number, 4) for name, number in found.items()}


def canonical_reward_share(problems: Sequence[Problem], weights: Mapping[str, float]) -> float:
    """The share of problems whose canonical completion earns exactly the weights of its task's terms."""

    def earns_all(problem: Problem) -> bool:
        earned = sum(weight * TERMS[name](problem, str(problem.answer), []) for name, weight in weights.items())
        own = [name for name in weights if (name in OF_ANALYSES) == is_analysis(problem)]
        return earned == sum(weights[name] for name in own)

    return fmean(map(earns_all, problems))


def lines(runs: Mapping[int, LearningRun]) -> list[str]:
    """A line a measure: its means before and after, over the seeds."""
    every = list(runs.values())
    found = []
    for name in (f"{measure}/{kind}" for measure in SHOWN for kind in KINDS):
        key = f"{PREFIX}{name}"
        if all(key in run.before and key in run.after for run in every):
            before, after = (fmean(getattr(run, when)[key] for run in every) for when in ("before", "after"))
            found.append(f"{name:36} {before:.3f} → {after:.3f}")
    return found


def main(arguments: Sequence[str]) -> None:
    """Run, print a line a measure, and as the last line the figures."""
    parser = parser_of("chess", __doc__ or "")
    parser.add_argument("--positions", type=int, default=100_000, metavar="N", help="on which the rules are compared")
    options = parser.parse_args(arguments)
    wrong = differences(options.positions, seed=0)
    for line in wrong[:10]:
        print(line, file=sys.stderr)
    runs: dict[int, LearningRun] = {}
    shares = []
    with tempfile.TemporaryDirectory(prefix="graft-chess-") as temporary:
        folder = options.keep or Path(temporary)
        for seed in options.seeds:
            root = folder / f"seed-{seed}"
            runs[seed] = learn(root, seed, [*preset("chess"), *options.assignments], options.verbose)
            weights = load_params(root / "params.yaml").rewards.environment
            shares.append(canonical_reward_share(read_jsonl(Layout(root).problems("test"), Problem), weights))
            print(f"seed {seed}: {runs[seed].seconds:.0f} s", file=sys.stderr)
    print("\n".join(lines(runs)))
    checked = {"rule_differences": len(wrong), "canonical_reward_share": fmean(shares)}
    print(json.dumps({**figures(list(runs.values())), **checked, "seeds": list(runs)}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
