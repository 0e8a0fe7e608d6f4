"""Sequential test of whether rewards err: groups are measured in parts, in random order, until it is certain.

Conformal control (conformal_control.py) rejects samples whose influence has a low p-value. Where all rewards are right,
about a share a of the training samples has one of at most a; call these low. Rewards err at the level a if a group's
share of low samples is at least TIMES · a in the mean. The test, valid whenever it is looked at, ends the measurement
as soon as it is certain, at each of its levels, that they do not. For a group with the share s of low samples

    e = s / TIMES + (1 - s) · (1 - a) / (1 - TIMES · a)

has a mean of at most 1 if rewards err, however the samples of one group depend on each other. So the product of e over
the groups is then ever above 1 / MISSED with a probability of at most MISSED (Ville's inequality; Ramdas et al. 2023,
Game-theoretic statistics and safe anytime-valid inference, §2 and §3).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from tasks.model.sample import Sample
from tasks.objective.groups import SampleGroup
from tasks.seeds import derive_seed
from tasks.select.conformal_control import influences_with_signal, p_values
from tasks.select.tracin import NOT_MEASURED, Influences, Measure, Products, SampleInfluence, centre

LEVELS = (0.05, 0.1, 0.2)
"""Few samples of very low influence show at the first, many of rather low influence at the last."""

TIMES = 2
"""As many times the share that chance gives are low where rewards err."""

MISSED = 0.05
"""Probability of an end before all is measured although rewards err."""

PARTS = 8
"""Of the groups: after each the test is asked. More parts end earlier, and have smaller micro-batches."""


@dataclass(frozen=True)
class Calibration:
    """Validation samples and their influence: see conformal_control.calibration_influences."""

    samples: Sequence[Sample]
    influences: Sequence[SampleInfluence]


@dataclass(frozen=True)
class Measured:
    """The influences of the samples of all groups, NOT_MEASURED those of groups that came after the end."""

    influences: Influences
    certain: bool  # that no rewards err
    share: float  # of the samples that are measured


def low_levels(calibration: int) -> list[float]:
    """The p-values up to LEVELS that this number of calibration samples can give, from the lowest."""
    ranks = {math.floor(level * (1 + calibration)) for level in LEVELS} - {0}
    return [rank / (1 + calibration) for rank in sorted(ranks)]


def is_certain(low_shares: Sequence[float], level: float) -> bool:
    """Whether the shares of low samples [groups], in the order in which they are measured, are ever evidence enough."""
    evidence, most = 0.0, -math.log(MISSED)
    for share in low_shares:
        evidence += math.log(share / TIMES + (1 - share) * (1 - level) / (1 - TIMES * level))
        if evidence >= most:
            return True
    return False


def measure_groups(
    groups: Sequence[SampleGroup],
    measure_part: Callable[[Sequence[SampleGroup]], Products],
    measure: Measure,
    calibration: Calibration | None,
    round: int,
) -> Measured:
    """The influences of the groups' samples; of all of them unless a calibration is given and makes certain earlier.

    The order of the groups depends on the round and the problems alone.
    """
    parts = [list(range(len(groups)))] if calibration is None else _random_parts(groups, round)
    measured, shares, certain = list[Products](), defaultdict[float, list[float]](list), False
    for number, part in enumerate(parts, 1):
        measured.append(measure_part([groups[place] for place in part]))
        if calibration and number < len(parts):
            for level, low in _low_shares(measured, calibration, measure).items():
                shares[level] += low
            if certain := bool(shares) and all(is_certain(low, level) for level, low in shares.items()):
                break
    found, places = centre(measured, measure), [place for part in parts[: len(measured)] for place in part]
    each, start = [[NOT_MEASURED] * len(group.samples) for group in groups], 0
    for place in places:
        end = start + len(groups[place].samples)
        each[place], start = found.each[start:end], end
    flat = [one for own in each for one in own]
    return Measured(replace(found, each=flat), certain, len(found.each) / max(len(flat), 1))


def _random_parts(groups: Sequence[SampleGroup], round: int) -> list[list[int]]:
    """The places of the groups in parts of nearly equal sizes, none of them empty."""
    order = sorted(range(len(groups)), key=lambda place: derive_seed("part", round, groups[place].problem_id))
    count = min(PARTS, len(order))
    return [order[n * len(order) // count : (n + 1) * len(order) // count] for n in range(count)]


def _low_shares(measured: Sequence[Products], calibration: Calibration, measure: Measure) -> dict[float, list[float]]:
    """Of the last part, with the means of all parts so far: the share of low samples in each problem's [problems], at
    each level. Only samples with a signal count; those that control would keep for their influence above 0 are not low.
    """
    samples = measured[-1].samples
    scored = centre(measured, measure).each[-len(samples) :]
    influences = influences_with_signal(samples, scored)
    trusted = influences_with_signal(calibration.samples, calibration.influences)
    names = [s.problem_id for s in samples if s.has_signal]
    by_problem: dict[str, list[float]] = {}
    for name, influence, p in zip(names, influences, p_values(influences, trusted), strict=True):
        by_problem.setdefault(name, []).append(p if influence <= 0 else 1.0)
    return {
        level: [fmean(p <= level for p in values) for values in by_problem.values()]
        for level in low_levels(len(trusted))
    }
