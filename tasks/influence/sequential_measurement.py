"""Influence of groups in parts, in random order, which ends when it is certain that no rewards err."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tasks.influence.conformal_control import low_shares
from tasks.influence.sequential_test import is_certain
from tasks.influence.tracin import NOT_MEASURED, Influences, Measure, Products, SampleInfluence, centre
from tasks.model.sample import Sample
from tasks.objective.groups import SampleGroup
from tasks.seeds import derive_seed

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
    """Of the last part, with the means of all parts so far."""
    samples = measured[-1].samples
    own = centre(measured, measure).each[-len(samples) :]
    return low_shares(samples, own, calibration.samples, calibration.influences, measure)
