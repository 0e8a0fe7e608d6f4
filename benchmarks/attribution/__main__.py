"""Attribution tested by retraining: does the summed influence of a training set foretell what training on it gives?

    python -m benchmarks.attribution

Linear datamodeling score (Park et al. 2023, TRAK, §4): from one policy and one round of the shipped params, with
PROBLEMS problems, SUBSETS random halves of the samples with a signal are each trained on as the update trains. The
outcome is minus the validation loss afterwards, on the validation samples that influence is measured on. The score is
Spearman's correlation of the outcomes with the sum of a measure over the halves:

    exact, local      influence by `dot` and by `local`, as the stage select measures it
    frozen            `dot` with constant prompts
    same_batch        `dot`, the round as its own validation, without own votes
    audit             sign of the advantage times the agreement that the audit goes by
    reward            the advantage alone
    random            a random number

One seed is one round. Next to it: the certificate's slope for the exact influences, by the update's own scorer, and
whether it refuses each of the wrong influences of `measures.planted`; the greatest difference to plain autograd in
float64, a backward pass a sample, as a share of the largest influence; the seconds of exact influence over those of
plain passes over the same rows; and of the choices that the working notes name (tests/support/choices.py) the share
that is reachable: a round of the tiny project ends with it, and differs from the round without it.

Each seed's figures are a line of `--keep`; a command that is ended goes on. The last line of standard output is one
JSON object: `lds_…`, means over the seeds, `lds_…_low` and `…_high` the ends of their 95 % intervals (Student's t).
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from benchmarks.attribution.measures import AVERAGING, measures, planted
from benchmarks.attribution.reachable import reachable_choices
from benchmarks.support import short_runs
from benchmarks.support.plain_influence import loop, plain
from benchmarks.support.short_runs import Figures, append_figures, read_figures
from benchmarks.support.student_interval import interval
from flows.process import settings
from flows.process.exit_codes import exit_code
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy
from tasks.model.sample import Sample
from tasks.objective.groups import SampleGroup, groups_by_split, samples_in
from tasks.params.params import Params
from tasks.rollout import roll_out
from tasks.select.certificate import certify, validation_loss
from tasks.select.losses import Validation, validation_of
from tasks.select.tracin import influences
from tasks.update.compute import update_policy, update_scorer
from tasks.update.step_plan import selected_group
from tests.support.workspace import PROJECT

PROBLEMS, SUBSETS = 64, 40
REVISION = 3
NAMES = ("exact", "frozen", "local", "same_batch", "audit", "reward", "random")
RESULTS = PROJECT / "benchmarks" / "attribution" / "results.jsonl"


def assignments(seed: int) -> tuple[str, ...]:
    """What differs from the shipped params: beta 0, because no KL is part of influence."""
    return ("machine.tracking.uri=''", f"search.problems={PROBLEMS}", "update.beta=0.0", f"seed={seed}")


def figures_of(root: Path, seed: int) -> Figures:
    """The figures of one round."""
    import torch
    from scipy.stats import spearmanr

    torch.set_num_threads(1)
    asked = assignments(seed)
    params, folder = short_runs.params_of(asked), short_runs.start_folder(root, asked)
    short_runs.make_start(folder, params)
    policy = load_policy(Layout(folder).policy(0))
    with short_runs.setting_of(folder, params) as setting:
        drawn = short_runs.draw_problems(params, *short_runs.read_problems(folder, params), 1)
        rewarded = roll_out(setting, policy, drawn, 1)
    groups = groups_by_split(policy, rewarded, ["train", "validation"], params.update)
    train, validation = groups["train"], validation_of(groups["validation"], params.influence, 1)
    scorer = update_scorer(policy, [*samples_in(train), *validation.samples], params)
    exact, numbers = certificate_figures(policy, train, validation, params)
    numbers |= autograd_figures(policy, samples_in(train), validation, params)
    by_name = {"exact": exact} | measures(scorer, train, validation, rewarded, seed)
    halves, outcomes = [], []
    for subset in range(SUBSETS):
        halves.append(random_half(train, seed, subset))
        outcomes.append(-trained_loss(policy, train, halves[-1], validation, params))
        print(f"seed {seed}: subset {subset + 1} of {SUBSETS}, {outcomes[-1]:.4f}", file=sys.stderr)
    for name, own in by_name.items():
        sums = [sum(x for x, kept in zip(own, half, strict=True) if kept) for half in halves]
        numbers[f"lds_{name}"] = float(spearmanr(sums, outcomes).statistic)
    return numbers


def random_half(train: Sequence[SampleGroup], seed: int, subset: int) -> list[bool]:
    """Half of the samples with a signal."""
    places = [place for place, s in enumerate(samples_in(train)) if s.has_signal]
    kept = set(Random(f"{seed} {subset}").sample(places, len(places) // 2))
    return [place in kept for place in range(len(samples_in(train)))]


def trained_loss(
    policy: Policy, train: Sequence[SampleGroup], kept: Sequence[bool], validation: Validation, params: Params
) -> float:
    """The validation loss after an update on the samples that are kept; the policy stays as it was."""
    import torch

    before = {name: w.detach().clone() for name, w in policy.model.named_parameters() if w.requires_grad}
    flags = iter(kept)
    groups = [selected_group(group, [next(flags) for _ in group.samples], AVERAGING) for group in train]
    update_policy(policy, groups, None, params, 1)
    loss = validation_loss(update_scorer(policy, validation.samples, params), validation)
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if name in before:
                weight.copy_(before[name])
    return loss


def certificate_figures(
    policy: Policy, train: Sequence[SampleGroup], validation: Validation, params: Params
) -> tuple[list[float], Figures]:
    """The exact influences; the certificate's slope for them, the share of wrong ones that it refuses, and seconds."""
    samples = samples_in(train)
    scorer = update_scorer(policy, [*samples, *validation.samples], params)
    started = time.process_time()
    right = [one.product or 0.0 for one in influences(scorer, samples, AVERAGING, validation).samples]
    seconds, started = time.process_time() - started, time.process_time()
    rows = [*distinct(s for s in samples if s.has_signal), *distinct(validation.samples_with_signal)]
    for batch in replace(scorer, layout="rows").batches(rows):
        plain(scorer, batch.samples)
    numbers = {"exact_seconds_ratio": seconds / (time.process_time() - started)}

    def certificate(products: Sequence[float]) -> Any:
        return certify(scorer, samples, products, validation, params.update, 64, seed=1)

    numbers["certificate_slope_update"] = certificate(right).slope
    refused = {}
    for name, products in planted(scorer, train, validation, right).items():
        try:
            certificate(products()).check()
            refused[name] = False
        except GraftError:
            refused[name] = True
    print(refused, file=sys.stderr)
    return right, numbers | {"certificate_refuses": sum(refused.values()) / len(refused)}


def distinct(samples: Any) -> list[Sample]:
    """One of each problem and completion."""
    return list({(s.problem_id, s.completion): s for s in samples}.values())


def autograd_figures(policy: Policy, samples: Sequence[Sample], validation: Validation, params: Params) -> Figures:
    """The difference of some influences to those of a backward pass each, in float64."""
    twin = replace(policy, model=deepcopy(policy.model).double())
    some = [s for s in samples if s.has_signal][:12]
    held_out = [replace(s, advantage=c) for s, c in zip(validation.samples, validation.coefficients, strict=True)][:48]
    scorer = update_scorer(twin, [*some, *held_out], params)
    loss = Validation(held_out, [s.advantage for s in held_out])
    ours = [one.influence or 0.0 for one in influences(scorer, some, AVERAGING, loss).samples]
    theirs = loop(scorer, some, held_out)
    return {"exact_vs_autograd": max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / max(map(abs, theirs))}


def main(arguments: Sequence[str]) -> None:
    """Compute what is missing, print the table, and as the last line the figures."""
    parser = argparse.ArgumentParser("python -m benchmarks.attribution", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)), metavar="SEED")
    parser.add_argument("--keep", type=Path, default=RESULTS, metavar="FILE", help="results, a line a seed")
    options = parser.parse_args(arguments)
    settings.set_environment()
    digests = {short_runs.digest(assignments(seed), REVISION, SUBSETS): seed for seed in options.seeds}
    known = read_figures(options.keep, digests)
    with tempfile.TemporaryDirectory(prefix="graft-attribution-") as root:
        reachable = reachable_choices(Path(root))
        for name, seed in digests.items():
            if seed not in known:
                known[seed] = figures_of(Path(root), seed)
                append_figures(options.keep, name, known[seed], seed=seed)
    print_table(known)
    numbers: dict[str, float] = {}
    for name in next(iter(known.values())):
        mean, half = interval([own[name] for own in known.values()])
        numbers[name] = mean
        if name.startswith("lds_"):
            numbers |= {f"{name}_low": mean - half, f"{name}_high": mean + half}
    numbers["certificate_slope_update"] = max((own["certificate_slope_update"] for own in known.values()),
                                              key=lambda slope: abs(slope + 1))  # fmt: skip
    numbers["exact_vs_autograd"] = max(own["exact_vs_autograd"] for own in known.values())
    numbers["rows_reachable"] = fmean(reachable.values())
    print(*(f"not reachable: {name}" for name, is_reached in reachable.items() if not is_reached), sep="\n")
    print(json.dumps({name: float(f"{number:.4g}") for name, number in numbers.items()} | {"seeds": [*known]}))


def print_table(known: dict[int, Figures]) -> None:
    """A row a measure: its mean over the seeds, and each seed's."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="linear datamodeling score", title_justify="left")
    for title in ("measure", "mean", "95 %", *(f"seed {seed}" for seed in known)):
        table.add_column(title, justify="left" if title == "measure" else "right")
    for name in NAMES:
        scores = [own[f"lds_{name}"] for own in known.values()]
        mean, half = interval(scores)
        table.add_row(name.replace("_", " "), f"{mean:.3f}", f"± {half:.3f}", *(f"{score:.3f}" for score in scores))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
