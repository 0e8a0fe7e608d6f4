"""Intervals over problems: bootstrap, and Wilson's where problems are few.

The problem is the unit: the samples of one problem are alike, and an interval that counts them one by one is far too
narrow (it covers 65 % where it claims 95 %). Of few problems the bootstrap's is too narrow, and too wide where hardly
any is solved; Wilson's is neither: docs/results/2026-11-27-benchmarks.md#coverage-of-intervals.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

WILSON_BELOW = 100
"""Fewer problems than these have Wilson's interval."""

RESAMPLES = 10_000
"""Resamples of a bootstrap: an end then varies by a hundredth of the interval."""

CONFIDENCE = 0.95
"""Of all intervals, and so of the promotion gate."""

CHANCE = 1.96
"""Standard errors of a mean that such an interval has on each side."""

POWER = 0.8
"""Chance with which a detectable difference is seen."""

RESAMPLE_BATCH = 1000  # resamples drawn together, so that memory stays below BATCH × problems numbers


class Estimate(NamedTuple):
    """A mean with the two ends of its interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> Estimate:
    """Mean of M values within [0, 1], one a problem, with its interval: Wilson's for few, else bootstrap."""
    if len(values) < WILSON_BELOW:
        return wilson_interval(values)
    return bootstrap_interval(values, seed, resamples)


def bootstrap_interval(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> Estimate:
    """Mean of M values within [0, 1] with its percentile bootstrap interval. Raises ValueError where there are none."""
    return _interval(values, (0.0, 1.0), resamples, seed)


def wilson_interval(values: Sequence[float]) -> Estimate:
    """Mean p of M values within [0, 1] with Wilson's interval for as many coin flips as they are worth.

        n = p (1 - p) / (s² / M)        flips, whose mean would vary as this one does; M where all values are equal
        (p + z² / 2n ± z √(p (1 - p) / n + z² / 4n²)) / (1 + z² / n)

    z is Student's quantile with M - 1 degrees of freedom, because s is measured. (Wilson 1927, J. Am. Stat. Assoc. 22;
    an effective number of flips: Korn and Graubard 1998, Survey Methodology 24.) Raises ValueError where M is 0.
    """
    from scipy.stats import t

    count = len(values)
    if not count:
        raise ValueError("no problems to take a mean of")
    p = math.fsum(values) / count
    square = math.fsum((value - p) ** 2 for value in values) / max(count - 1, 1)
    n = p * (1 - p) * count / square if square > 0 else count
    z = float(t.ppf((1 + CONFIDENCE) / 2, max(count - 1, 1)))
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    low, high = ((centre + side * half) / (1 + z * z / n) for side in (-1, 1))
    return Estimate(p, min(max(low, 0.0), p), max(min(high, 1.0), p))


def difference_interval(
    after: Sequence[float],
    before: Sequence[float],
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Mean of after − before over the same M problems: paired, so a problem is hard or easy for both sides.

    Values within [0, 1]. Raises ValueError where the lengths differ.
    """
    differences = [a - b for a, b in zip(after, before, strict=True)]
    return _interval(differences, (-1.0, 1.0), resamples, seed, confidence)


def detectable_difference(after: Sequence[float], before: Sequence[float]) -> float:
    """The smallest mean of after − before that M problems like these show: its interval then lies above 0 with POWER.

        (z of 97.5 % + z of POWER) s / √M

    s is the standard deviation of the differences of the M pairs, not below √(1 / M): as if one problem differed. A
    third of it takes 9 M problems. (Cohen 1988, Statistical Power Analysis for the Behavioral Sciences, 2.4.) Raises
    ValueError where there are no pairs, or the lengths differ.
    """
    from statistics import NormalDist, fmean

    differences = [a - b for a, b in zip(after, before, strict=True)]
    if not differences:
        raise ValueError("no problems to compare")
    mean, count = fmean(differences), len(differences)
    variance = math.fsum((each - mean) ** 2 for each in differences) / max(count - 1, 1)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) + NormalDist().inv_cdf(POWER)
    return z * math.sqrt(max(variance, 1 / count) / count)


def _interval(
    values: Sequence[float], span: tuple[float, float], resamples: int, seed: int, confidence: float = CONFIDENCE
) -> Estimate:
    import numpy as np
    from scipy.stats import bootstrap

    if not values:
        raise ValueError("no problems to take a mean of")
    data = np.asarray(values, dtype=np.float64)
    mean = float(data.mean())
    if np.all(data == data[0]):
        return Estimate(mean, *_constant(float(data[0]), len(data), span, confidence))
    ends = bootstrap(
        (data,),
        np.mean,
        n_resamples=resamples,
        batch=RESAMPLE_BATCH,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(mean, float(ends.low), float(ends.high))


def _constant(value: float, count: int, span: tuple[float, float], confidence: float) -> tuple[float, float]:
    """The interval of `count` equal values, where resampling has nothing to vary.

    All at one end of the span: as wide as Clopper and Pearson's for `count` coin flips, since flipping a coin of
    chance x for each value x keeps the mean and gives these very flips. So 0 of 200 solved is not "0 to 0".
    """
    from scipy.stats import binomtest

    least, most = span
    if value not in span:
        return value, value
    ends = binomtest(count if value == most else 0, count).proportion_ci(confidence, method="exact")
    return least + (most - least) * float(ends.low), least + (most - least) * float(ends.high)
