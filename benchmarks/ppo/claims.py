"""The claims that benchmarks.ppo settles: differences of runs, paired by seed, and a verdict of each.

A claim is a difference that its authors would expect to be above 0. It holds where the confidence interval (Student's t
over the seeds) lies above 0, is contradicted where it lies below, and is not confirmed where it contains 0. All
differences are such that more is better.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from benchmarks.ppo.cells import (
    BOTTOM,
    FEW,
    LARGER,
    MANY,
    NONE,
    SAME_BATCH,
    SETTINGS,
    SOME,
    TOP,
    Cell,
)
from benchmarks.support.short_runs import Figures
from benchmarks.support.student_interval import interval

SEEDS = 5
"""Seeds after which a claim is settled."""

Results = Mapping[Cell, Figures]
Verdict = Literal["holds", "contradicted", "not confirmed", "open"]
Difference = Callable[[Results, str, int], float | None]
"""Of the runs of an environment and a seed; None where one is missing."""


@dataclass(frozen=True)
class Claim:
    """A sentence, and the difference that it expects to be above 0."""

    sentence: str
    measured: str
    difference: Difference


def score(results: Results, cell: Cell) -> float | None:
    """How good the last policy of a run is, the more the better."""
    setting = SETTINGS[cell[0]]
    figures = results.get(cell)
    return None if figures is None else setting.sign * figures[setting.metric]


def gain(better: tuple[str, str], worse: tuple[str, str]) -> Difference:
    """Of the scores of two runs, each by algorithm and selection."""

    def difference(results: Results, environment: str, seed: int) -> float | None:
        one, other = (score(results, (environment, *own, seed)) for own in (better, worse))
        return None if one is None or other is None else one - other

    return difference


def deviation_fall(results: Results, environment: str, seed: int) -> float | None:
    """What the deviation of the rewards falls by from the first round to the last, in GRPO without selection."""
    figures = results.get((environment, "grpo", NONE, seed))
    return None if figures is None else figures["deviation_first"] - figures["deviation_last"]


CLAIMS = (
    Claim(
        "Same-batch selection works in PPO",
        "PPO, same batch, against no selection",
        gain(("ppo", SAME_BATCH), ("ppo", NONE)),
    ),
    Claim(
        "Same-batch selection works in PPO at equal CPU seconds",
        "PPO, same batch, against no selection from 20 completions a problem",
        gain(("ppo", SAME_BATCH), ("ppo", LARGER)),
    ),
    Claim(
        "so it is the fix for GRPO",
        "GRPO, same batch, against no selection",
        gain(("grpo", SAME_BATCH), ("grpo", NONE)),
    ),
    Claim(
        "so it is the fix for GRPO at equal CPU seconds",
        "GRPO, same batch, against no selection from 20 completions a problem",
        gain(("grpo", SAME_BATCH), ("grpo", LARGER)),
    ),
    Claim(
        "The same batch is better than held-out validation",
        "GRPO, same batch, against 128 held out",
        gain(("grpo", SAME_BATCH), ("grpo", SOME)),
    ),
    Claim("16 validation samples are too few", "GRPO, 1,024 held out against 16", gain(("grpo", MANY), ("grpo", FEW))),
    Claim(
        "The sign is backwards",
        "GRPO, the half of lower influence against the upper half",
        gain(("grpo", BOTTOM), ("grpo", TOP)),
    ),
    Claim("A value function is what GRPO lacks", "PPO against GRPO, no selection", gain(("ppo", NONE), ("grpo", NONE))),
    Claim("The variance of the rewards should fall", "GRPO, round 1 minus the last round", deviation_fall),
)


def seed_differences(difference: Difference, results: Results, environment: str, seeds: Sequence[int]) -> list[float]:
    """The difference of each seed that has its runs."""
    return [own for seed in seeds if (own := difference(results, environment, seed)) is not None]


def verdict(found: Sequence[float]) -> Verdict:
    """Of the differences of the seeds; open before SEEDS of them."""
    if len(found) < SEEDS:
        return "open"
    mean, half = interval(found)
    return "holds" if mean > half else "contradicted" if mean < -half else "not confirmed"


def settled_share(results: Results, environments: Sequence[str], seeds: Sequence[int]) -> float:
    """The share of the claims that have a verdict in each environment."""
    return fmean(
        all(
            verdict(seed_differences(claim.difference, results, environment, seeds)) != "open"
            for environment in environments
        )
        for claim in CLAIMS
    )
