"""Confidence interval of a mean over a few seeds."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

CONFIDENCE = 0.95


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of the 95 % interval of Student's t; infinite for fewer than two."""
    from scipy.stats import t

    count = len(differences)
    if count < 2:
        return fmean(differences), math.inf
    error = stdev(differences) / math.sqrt(count)
    return fmean(differences), float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) * error
