"""Sequential test of whether rewards err, on groups in random order: valid whenever it is looked at.

Conformal control (conformal_control.py) rejects samples whose influence is low. Where all rewards are right, about a
share a ≤ LEVEL of the training samples has a p-value of at most a; call these low. The test ends the measurement as
soon as it is certain that less than a share ERRING of them is low. For a group with the share s of low samples

    e = s · a / ERRING + (1 - s) · (1 - a) / (1 - ERRING)

has a mean of at most 1 if a share of at least ERRING is low, however the samples of one group depend on each other. So
the product of e over the groups is then ever above 1 / MISSED with a probability of at most MISSED (Ville's inequality;
Ramdas et al. 2023, Game-theoretic statistics and safe anytime-valid inference, §2 and §3).
"""

import math
from collections.abc import Sequence

LEVEL = 0.1
"""Most p-values, as a share, that are low where no reward errs."""

ERRING = 0.2
"""Share of low samples from which on rewards are said to err: twice as many as chance gives."""

MISSED = 0.05
"""Probability of an end before all is measured although rewards err."""


def low_level(calibration: int) -> float:
    """a: the highest p-value up to LEVEL that this number of calibration samples can give; 0 where there is none."""
    return math.floor(LEVEL * (1 + calibration)) / (1 + calibration)


def is_certain(low_shares: Sequence[float], level: float) -> bool:
    """Whether the shares of low samples [groups], in the order in which they are measured, are ever evidence enough.

    `level` is a; at 0 nothing can be low, and nothing is certain.
    """
    if level <= 0:
        return False
    evidence, most = 0.0, -math.log(MISSED)
    for share in low_shares:
        evidence += math.log(share * level / ERRING + (1 - share) * (1 - level) / (1 - ERRING))
        if evidence >= most:
            return True
    return False
