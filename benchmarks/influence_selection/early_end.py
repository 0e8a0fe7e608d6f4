"""When the measurement of influence ends early, with rewards that err and with exact ones.

    python -m benchmarks.influence_selection.early_end --workspaces FOLDER

At the first policy of each seed, a round of PROBLEMS problems of GROUP completions has the rewards of a condition
(benchmarks/influence_selection/world.py), and is measured as the stage `select` does, then whole. A cell of
the table has the share of the seeds whose measurement ends early, the mean share of the samples that is measured, and
the mean share that control drops where it is whole. The last line of standard output is one JSON object: with exact
rewards and the most trusted completions, `ended_exact` and `measured_exact`, the first two of a cell; and `missed`, of
the measurements whose control drops at least DROPPED of the samples, the share that ends early.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, get_args

from benchmarks.influence_selection.training_run import Rollouts, samples_of, training_problems, validation_of
from benchmarks.influence_selection.weights import BY_TOKEN, successes
from benchmarks.influence_selection.world import Condition, World, rewards_of, trusted_of, world_of
from benchmarks.selection import prepare, shipped_params
from flows.process.exit_codes import exit_code
from tasks.artifacts import digest_text
from tasks.objective.groups import SampleGroup, samples_in
from tasks.select.conformal_control import calibration_influences, shift_by_threshold
from tasks.select.losses import Validation
from tasks.select.sequential_test import Calibration, Measured, measure_groups
from tasks.select.tracin import Measure, Products, cache_validation_gradients, measure_products

if TYPE_CHECKING:
    from tasks.model.policy import Policy
    from tasks.model.sample import Sample

PROBLEMS, GROUP = 280, 8
TRUSTED = (256, 1024)
DROPPED = 0.05


class Round(NamedTuple):
    """A measurement with the test, and the share of the samples with a signal that control drops without it."""

    measured: Measured
    dropped: float


def measure_round(world: World, policy: "Policy", condition: Condition, trusted: int, seed: int) -> Round:
    """Measure a round in both ways."""
    from tasks.model.scoring.scorer import scorer_for, with_constant_prompts

    problems = training_problems(world, condition, PROBLEMS, seed, round=0)
    training = Rollouts(problems, world.rollouts(policy, problems, GROUP, "train", seed, 0))
    held_out = validation_of(world, policy, trusted, seed, 0)
    given = samples_of(policy, training, rewards_of(condition, problems, training.groups, seed, 0))
    voting = samples_of(policy, held_out, trusted_of(held_out.groups))
    groups, samples = groups_of(given), [successes(s) for s in given]
    own = [successes(s) for s in voting]
    tokens, measure = world.params.update.micro_batch_tokens, Measure(similarity="local")
    scorer = with_constant_prompts(scorer_for(policy, [*samples, *own], 1.0, tokens), [*samples, *own])
    validation = Validation(own, [s.advantage for s in voting])
    cached = cache_validation_gradients(scorer, validation, measure.budget)
    sizes = [abs(s.advantage) for s in voting]
    calibrated = calibration_influences(scorer, BY_TOKEN, validation, measure, sizes, samples, cached)

    def measure_part(part: Sequence[SampleGroup]) -> Products:
        sizes = [abs(advantage) for group in part for advantage in group.advantages]
        given = (sizes, None, cached, samples)
        return measure_products(scorer, samples_in(part), BY_TOKEN, validation, measure, *given)

    measured = measure_groups(groups, measure_part, measure, Calibration(own, calibrated), round=1)
    whole = measure_groups(groups, measure_part, measure, None, round=1).influences.each
    controlled = shift_by_threshold(samples, whole, own, calibrated, measure)
    dropped = [x <= 0 for s, x in zip(samples, controlled or [1.0] * len(samples), strict=True) if s.has_signal]
    return Round(measured, fmean(dropped))


def groups_of(samples: Sequence["Sample"]) -> list[SampleGroup]:
    """A group for each problem, of samples of which only successes are learned from."""
    by_problem: dict[str, list[Sample]] = {}
    for sample in samples:
        by_problem.setdefault(sample.problem_id, []).append(sample)
    return [
        SampleGroup(name, [successes(s) for s in own], [s.advantage for s in own], [], [], [], [], [])
        for name, own in by_problem.items()
    ]


def main(arguments: Sequence[str]) -> None:
    """Measure, print the table, and as the last line the figures."""
    import torch
    from rich.console import Console
    from rich.table import Table

    from tasks.layout import Layout
    from tasks.model.policy import load_policy

    options = _options(arguments)
    torch.set_num_threads(1)
    version = digest_text(shipped_params().model_dump_json())[:8]
    found: dict[tuple[Condition, int], list[Round]] = {}
    with ExitStack() as stack:
        root = options.workspaces or stack.enter_context(tempfile.TemporaryDirectory(prefix="graft-early-end-"))
        for seed in options.seeds:
            folder = prepare(Path(root, f"{version}-{seed}"), seed)
            world, policy = world_of(folder), load_policy(Layout(folder).policy(0))
            for condition in get_args(Condition):
                for trusted in TRUSTED:
                    one = measure_round(world, policy, condition, trusted, seed)
                    found.setdefault((condition, trusted), []).append(one)
                    print(f"{seed} {condition} {trusted}: {one.measured.share:.3f} {one.dropped:.3f}", file=sys.stderr)
    table = Table(title="early ends, share measured, share dropped", title_justify="left")
    for column in ("", *(f"{trusted} trusted" for trusted in TRUSTED)):
        table.add_column(column)
    for condition in get_args(Condition):
        cells = [found[condition, trusted] for trusted in TRUSTED]
        table.add_row(condition, *map(cell, cells))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    exact = [one.measured for one in found["clean", TRUSTED[-1]]]
    erring = [one for rounds in found.values() for one in rounds if one.dropped >= DROPPED]
    figures = {
        "ended_exact": round(fmean(one.certain for one in exact), 4),
        "measured_exact": round(fmean(one.share for one in exact), 4),
        "missed": round(fmean(one.measured.certain for one in erring), 4) if erring else None,
    }
    print(json.dumps(figures))


def cell(rounds: Sequence[Round]) -> str:
    """The three means of a cell."""
    ended, shares = fmean(one.measured.certain for one in rounds), fmean(one.measured.share for one in rounds)
    return f"{ended:.2f}, {shares:.2f}, {fmean(one.dropped for one in rounds):.2f}"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    description = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser("python -m benchmarks.influence_selection.early_end", description=description)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(8)), metavar="SEED")
    parser.add_argument("--workspaces", type=Path, metavar="FOLDER", help="where first policies stay")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
