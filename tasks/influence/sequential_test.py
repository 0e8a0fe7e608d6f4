"""Sequential test of whether rewards err, on groups in random order: valid whenever it is looked at.

Conformal control (conformal_control.py) rejects samples whose influence has a low p-value. Where all rewards are right,
about a share a of the training samples has one of at most a; call these low. Rewards err at the level a if a group's
share of low samples is at least TIMES · a in the mean. The test ends the measurement as soon as it is certain, at each
of its levels, that they do not. For a group with the share s of low samples

    e = s / TIMES + (1 - s) · (1 - a) / (1 - TIMES · a)

has a mean of at most 1 if rewards err, however the samples of one group depend on each other. So the product of e over
the groups is then ever above 1 / MISSED with a probability of at most MISSED (Ville's inequality; Ramdas et al. 2023,
Game-theoretic statistics and safe anytime-valid inference, §2 and §3).
"""

import math
from collections.abc import Sequence

LEVELS = (0.05, 0.1, 0.2)
"""Few samples of very low influence show at the first, many of rather low influence at the last."""

TIMES = 2
"""As many times the share that chance gives are low where rewards err."""

MISSED = 0.05
"""Probability of an end before all is measured although rewards err."""


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
