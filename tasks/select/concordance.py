"""Concordance of rewards with influence, and what it says of the training rewards.

Every completion has an estimate x of its advantage from those of validation completions similar to it. The AUC is the
share of the pairs of completions of one problem, with unequal rewards, of which the better one has the higher x. It is
measured on training and on validation, whose rewards are trusted. Where a share a of training's better completions are
in truth no better, and a share b of the worse no worse,

    AUC_train - 1/2 = (1 - a - b) (AUC_validation - 1/2)

(Menon et al. 2015, Learning from Corrupted Binary Labels via Class-Probability Estimation, §5), so that the fault share
(a + b) / 2 follows from both. Where a tenth of 0/1 rewards is flipped at random it is 0.1 if half of them are 1, and
more if few or most are: then a larger part of the rarer kind is wrong.

An error that validation's rewards share, such as one of the reward function itself, does not show.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Answer = Literal["rewards look right", "rewards err", "cannot tell"]

LEVEL = 0.05
"""Probability of the answer that rewards err although they do not, where the estimates x are given. That they are
estimated themselves makes it 0.05 to 0.08 (docs/influence.md)."""

POWER = 0.9
"""Probability with which NOTICEABLE is to be noticed."""

NOTICEABLE = 0.1
"""A fault share that an audit should notice."""


@dataclass(frozen=True)
class Concordance:
    """AUC over the groups that have a pair, its standard error, and the number of these groups."""

    auc: float
    error: float
    groups: int


@dataclass(frozen=True)
class Audit:
    """What the concordance of training says, against that of validation."""

    answer: Answer
    share: float  # the fault share; NaN where validation's own rewards do not agree with influence
    low: float  # of its interval, one-sided at LEVEL in either direction
    high: float
    problems_needed: int  # validation problems with which NOTICEABLE would be noticed; 0: these are enough

    def __str__(self) -> str:
        """The answer in a line."""
        if self.answer == "rewards err":
            return f"rewards err: about {self.share:.0%} of the training rewards, at least {max(self.low, 0):.0%}"
        if self.answer == "rewards look right":
            return f"rewards look right: less than {max(self.high, 0):.0%} of the training rewards err"
        if math.isnan(self.share):
            return "cannot tell whether rewards err: not even validation's agree with influence"
        return (
            f"cannot tell whether rewards err: up to {self.high:.0%} of the training rewards may; about "
            f"{self.problems_needed} validation problems would show {NOTICEABLE:.0%}"
        )


def concordance(groups: Iterable[tuple[Sequence[float], Sequence[float | None]]]) -> Concordance | None:
    """Of the (x [G], rewards [G]) of each problem; None where no group has a pair. A failed reward has no pair.

    The error is that of a ratio of sums over groups, which are independent of each other; completions of one are not.
    """
    import numpy as np

    rows = list[tuple[int, float]]()
    for estimates, rewards in groups:
        known = [place for place, reward in enumerate(rewards) if reward is not None]
        x = np.asarray([estimates[place] for place in known])
        y = np.asarray([rewards[place] for place in known], dtype=np.float64)
        better = y[:, None] > y[None, :] + 1e-9
        if pairs := int(better.sum()):
            rows.append((pairs, float(((np.sign(x[:, None] - x[None, :]) + 1) / 2)[better].sum())))
    if not rows:
        return None
    total = sum(pairs for pairs, _ in rows)
    auc = math.fsum(right for _, right in rows) / total
    spread = math.fsum((right - auc * pairs) ** 2 for pairs, right in rows)
    error = math.sqrt(spread * len(rows) / max(len(rows) - 1, 1)) / total
    return Concordance(auc, error, len(rows))


def audit_of(train: Concordance | None, validation: Concordance | None, problems: int) -> Audit:
    """The answer; `problems`: of validation. None: no group has completions of unequal rewards."""
    from scipy.stats import t

    nothing = Audit("cannot tell", math.nan, math.nan, math.nan, 0)
    if train is None or validation is None or min(train.groups, validation.groups) == 1:
        return nothing
    lift, error = validation.auc - 0.5, math.hypot(train.error, validation.error)
    if lift <= float(t.isf(LEVEL, validation.groups - 1)) * validation.error:
        return nothing
    times = float(t.isf(LEVEL, _freedom(train, validation))) if error else 0.0
    share, margin = (validation.auc - train.auc) / (2 * lift), times * error / (2 * lift)
    needed = problems_needed(problems, lift, error)
    answer: Answer = "cannot tell"
    if share > margin:
        answer = "rewards err"
    elif share + margin < NOTICEABLE:
        answer = "rewards look right"
    return Audit(answer, share, share - margin, share + margin, needed if needed > problems else 0)


def _freedom(one: Concordance, other: Concordance) -> float:
    """Degrees of freedom of the difference (Welch 1947, The Generalization of 'Student's' Problem)."""
    variances = [found.error**2 for found in (one, other)]
    parts = [v**2 / (found.groups - 1) for v, found in zip(variances, (one, other), strict=True)]
    return sum(variances) ** 2 / sum(parts)


def problems_needed(problems: int, lift: float, error: float) -> int:
    """The validation problems with which a fault share NOTICEABLE is noticed with probability POWER at LEVEL.

    `lift` is AUC_validation - 1/2, and `error` the standard error of AUC_validation - AUC_train with this number of
    `problems`; it falls with their root if the training groups grow with them. A one-sided z-test notices a difference
    of 2 · NOTICEABLE · lift if that is at least z_LEVEL + z_POWER standard errors (Lehmann and Romano 2005, Testing
    Statistical Hypotheses, §3.9).
    """
    from scipy.stats import norm

    times = float(norm.isf(LEVEL) + norm.ppf(POWER))
    return math.ceil(problems * (times * error / (2 * NOTICEABLE * lift)) ** 2)
