"""Audit of the training rewards: whether they err, compared with validation's, which are trusted.

A logistic regression learns from validation's completions the expected reward p of a completion from what is known
without its reward (self_consistency.py). Where p is near 0 or 1, a reward that says the opposite contradicts it:

    contradicted = Σ w |r − [p > ½]| / Σ w        w = (2p − 1)²

over the rewards r, scaled from 0 to 1, of independent samples. Rewards of one kind are contradicted equally often in
training and in validation, where p is that of a regression without the completion's problem. A share ρ of inverted
rewards raises the former by ρ (1 − 2 · contradicted) (Menon et al. 2015, Learning from Corrupted Binary Labels via
Class-Probability Estimation, §5). The standard error is that of a ratio over problems, whose completions depend on each
other (Cochran 1977, Sampling Techniques, §2.11).

It only asks. Where rewards err, influence selects: select_samples.py.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from tasks.records.problems import ProblemId
from tasks.records.selection import AuditAnswer, AuditShare, RewardAudit
from tasks.select.self_consistency import consistency_features, voters_of
from tasks.statistics.logistic_regression import LogisticRegression, fit_logistic_regression
from tasks.trajectories import RewardedTrajectory

if TYPE_CHECKING:
    from numpy import bool_
    from numpy.typing import NDArray

    from tasks.statistics.logistic_regression import Floats

REWARD = "reward"
"""The name of the whole reward among its terms."""

NOTICED = 0.1
"""Share of wrong rewards that an audit is to notice …"""

CERTAINTY = 0.9
"""… with this probability."""

FALSE_ALARM = 0.01
"""Probability that an audit says so although rewards are right, one-sided."""

TOLERATED = 0.02
"""A difference of the contradicted shares that is no evidence: problems of two files differ a little."""

FOLDS = 5
"""Of the validation problems; each is predicted by a regression on the other folds."""

AUDITED = 64
"""Validation problems that an audit begins with. With 8 completions of each it notices NOTICED in two rounds of the
default with more than CERTAINTY; more are sampled only where rewards do not look right."""

FEWEST = 30
"""Validation problems with which the normal distribution of a mean is close enough."""

LISTED = 20
"""Templates that are named at most."""


def audit_metrics(audit: RewardAudit) -> dict[str, float]:
    """What the stage `select` reports of it; audit_right and audit_err are 0 where the audit cannot tell."""
    return {
        "audit_right": int(audit.answer == "right"),
        "audit_err": int(audit.answer == "err"),
        "audit_wrong": audit.wrong,
        "audit_wrong_error": audit.error,
        "audit_contradicted": audit.contradicted,
        "audit_expected": audit.expected,
    }


class _Group(NamedTuple):
    """What the audit reads of a problem's completions."""

    problem_id: ProblemId
    template: str  # or the source, where there is none
    features: "Floats"  # [G, F]
    rewards: dict[str, "Floats"]  # REWARD and each term of it, [G]; NaN = failed
    independent: "NDArray[bool_]"  # [G] the samples whose rewards are compared


class _Excess(NamedTuple):
    """How much more often training's rewards are contradicted than validation's."""

    contradicted: float
    expected: float
    error: float  # standard error of the excess

    @property
    def excess(self) -> float:
        """The difference of the two shares."""
        return self.contradicted - self.expected

    def is_above(self, deviations: float) -> bool:
        """Whether the excess is more than is tolerated, by this number of standard errors."""
        return self.excess - deviations * self.error > TOLERATED


class _Comparison(NamedTuple):
    """Training's rewards, or a term of them, against validation's."""

    all: _Excess
    low: _Excess  # where p < ½: successes that should be none
    high: _Excess  # where p > ½: failures that should be none, as where a problem's key is wrong
    sums: "Floats"  # [P, 2] Σ w |r − [p > ½]| and Σ w of each training problem
    model: LogisticRegression  # of all validation problems
    scale: "Scale"


class Scale(NamedTuple):
    """The range of validation's rewards, which is mapped to 0 … 1."""

    low: float
    high: float

    def __call__(self, rewards: "Floats") -> "Floats":
        return ((rewards - self.low) / (self.high - self.low)).clip(0, 1)


def audit_in_steps(
    train: Sequence[RewardedTrajectory],
    sample: Callable[[int, int], Sequence[RewardedTrajectory]],
    most: int,
) -> tuple[RewardAudit, list[RewardedTrajectory]]:
    """The audit with AUDITED validation problems or, unless rewards look right by these, with `most`; and validation.

    `sample(first, last)` gives the completions of the problems from first up to last.
    """
    first = min(AUDITED, most)
    held_out = list(sample(0, first))
    audit = audit_rewards(train, held_out)
    if audit.answer != "right" and (more := sample(first, most) if first < most else []):
        held_out += more
        audit = audit_rewards(train, held_out)
    return audit, held_out


def audit_rewards(train: Iterable[RewardedTrajectory], validation: Sequence[RewardedTrajectory]) -> RewardAudit:
    """Compare the rewards of `train` with those of `validation`, which are trusted.

    Reads each trajectory of `train` once. Completions whose reward failed do not count.
    """
    # Both splits vote with equally many samples: of more voters the shares have other distributions, and a regression
    # that learned from groups of one size says little of groups of another.
    votes = min((len(voters_of(trajectory, len(trajectory.members))) for trajectory, _ in validation), default=0)
    audited = _with_rewards([_group(rewarded, votes) for rewarded in train], REWARD)
    trusted = _with_rewards([_group(rewarded, votes) for rewarded in validation], REWARD)
    compared = _compare(audited, trusted, REWARD)
    if compared is None:
        count, needed = len(trusted), max(FEWEST, 2 * len(trusted))
        return RewardAudit(
            answer="unclear", wrong=0, error=0, contradicted=0, expected=0, problems=count, needed=needed
        )
    audit = _answer(compared, len(trusted))
    if audit.answer != "err":
        return audit
    names = [name for name in trusted[0].rewards if name != REWARD]
    terms = [
        AuditShare(name=name, contradicted=term.all.contradicted, excess=term.all.excess)
        for name in names
        if len(names) > 1 and (term := _compare(audited, trusted, name))  # a single term is the reward itself
    ]
    return audit.model_copy(update={"terms": terms, "templates": _by_template(audited, compared)})


def _group(rewarded: RewardedTrajectory, votes: int) -> _Group:
    import numpy as np

    trajectory, rewards = rewarded
    voters = voters_of(trajectory, votes)
    independent = np.zeros(len(rewards), dtype=bool)
    independent[voters] = True
    columns: dict[str, list[float | None]] = {REWARD: [reward.reward for reward in rewards]}
    columns |= {name: [reward.terms[name] for reward in rewards] for name in rewards[0].terms}
    return _Group(
        trajectory.problem_id,
        trajectory.problem.template or trajectory.problem.source,
        consistency_features(trajectory, voters),
        {name: np.array(column, dtype=np.float64) for name, column in columns.items()},  # None becomes NaN
        independent,
    )


def _with_rewards(groups: Sequence[_Group], name: str) -> list[_Group]:
    """The groups of which a reward is known."""
    import numpy as np

    return [group for group in groups if not np.isnan(group.rewards[name]).all()]


def _compare(train: Sequence[_Group], validation: Sequence[_Group], name: str) -> _Comparison | None:
    """The comparison over problems with a known reward; None of hardly any, or where validation's rewards are equal."""
    import numpy as np

    train, validation = _with_rewards(train, name), _with_rewards(validation, name)
    lows, highs = ([end(group.rewards[name]) for group in validation] for end in (np.nanmin, np.nanmax))
    if not train or len(validation) < FOLDS or min(lows) == max(highs):
        return None
    scale = Scale(float(min(lows)), float(max(highs)))
    # A regression predicts the problems that it has seen too well: each of validation's is predicted by the one without
    # its fold, and training's, which none has seen, by all of them, so that both are predicted by equally much data.
    folds = [[g for place, g in enumerate(validation) if place % FOLDS != fold] for fold in range(FOLDS)]
    models = [_fit(groups, name, scale) for groups in folds]
    held_out = [models[place % FOLDS].predict(group.features) for place, group in enumerate(validation)]
    expected = np.array([_contradicted(g, p, name, scale) for g, p in zip(validation, held_out, strict=True)])
    contradicted = np.array(
        [
            np.mean([_contradicted(group, model.predict(group.features), name, scale) for model in models], axis=0)
            for group in train
        ]
    )
    return _Comparison(
        all=_excess(contradicted.sum(1), expected.sum(1)),
        low=_excess(contradicted[:, 0], expected[:, 0]),
        high=_excess(contradicted[:, 1], expected[:, 1]),
        sums=contradicted.sum(1),
        model=_fit(validation, name, scale),
        scale=scale,
    )


def _excess(train: "Floats", validation: "Floats") -> _Excess:
    """The excess from the sums [P, 2] of training's and validation's problems."""
    (contradicted, train_error), (expected, error) = _ratio(train), _ratio(validation)
    # Where none of n problems is contradicted, the ratio's error would be 0, and a single contradiction in training
    # more than chance. It is 1/n at least, of n problems of unequal weights.
    weights = validation[:, 1]
    fewest = float((weights**2).sum()) / max(float(weights.sum()) ** 2, 1e-12)
    return _Excess(contradicted, expected, math.hypot(train_error, max(error, fewest)))


def _fit(groups: Sequence[_Group], name: str, scale: Scale) -> LogisticRegression:
    import numpy as np

    rewards = np.concatenate([group.rewards[name] for group in groups])
    known = ~np.isnan(rewards)
    return fit_logistic_regression(np.concatenate([group.features for group in groups])[known], scale(rewards[known]))


def _contradicted(group: _Group, expected: "Floats", name: str, scale: Scale) -> "Floats":
    """Σ w |r − [p > ½]| and Σ w of a problem's independent samples: those where p < ½, then the others; [2, 2]."""
    import numpy as np

    chosen = group.independent & ~np.isnan(group.rewards[name])
    p, rewards = expected[chosen], scale(group.rewards[name][chosen])
    weights, high = (2 * p - 1) ** 2, p > 0.5
    wrong = weights * np.where(high, 1 - rewards, rewards)
    return np.array([[float(sums[side].sum()) for sums in (wrong, weights)] for side in (~high, high)])


def _ratio(sums: "Floats") -> tuple[float, float]:
    """Σ a / Σ b over problems [P, 2] and its standard error."""
    import numpy as np

    a, b = sums.T
    total = max(float(b.sum()), 1e-12)
    ratio = float(a.sum()) / total
    residuals = float(np.square(a - ratio * b).sum())
    return ratio, math.sqrt(residuals * len(a) / max(len(a) - 1, 1)) / total


def _answer(compared: _Comparison, problems: int) -> RewardAudit:
    whole, sides = compared.all, (compared.all, compared.low, compared.high)
    slope = max(1 - 2 * whole.expected, TOLERATED)
    # Three questions share the probability of a false alarm (Bonferroni).
    alarm, certain = NormalDist().inv_cdf(1 - FALSE_ALARM / len(sides)), NormalDist().inv_cdf(CERTAINTY)
    answer: AuditAnswer = "unclear"
    needed = 0
    if problems >= FEWEST and any(side.is_above(alarm) for side in sides):
        answer = "err"
    elif problems >= FEWEST and whole.excess + certain * whole.error < NOTICED * slope:
        answer = "right"
    else:
        # The error falls with √problems: with this number an excess of NOTICED raises the alarm with CERTAINTY.
        visible = max(NOTICED * slope - TOLERATED, TOLERATED)
        needed = max(math.ceil(problems * ((alarm + certain) * whole.error / visible) ** 2), 2 * problems, FEWEST)
    return RewardAudit(
        answer=answer,
        wrong=min(max(whole.excess / slope, 0.0), 1.0),
        error=whole.error / slope,
        contradicted=whole.contradicted,
        expected=whole.expected,
        problems=problems,
        needed=needed,
    )


def _by_template(train: Sequence[_Group], compared: _Comparison) -> list[AuditShare]:
    import numpy as np

    sums = defaultdict[str, list["Floats"]](list)
    for group, of_problem in zip(train, compared.sums, strict=True):
        sums[group.template].append(of_problem)
    contradicted = {name: _ratio(np.array(of_template))[0] for name, of_template in sums.items()}
    shares = [
        AuditShare(name=name, contradicted=share, excess=share - compared.all.expected)
        for name, share in contradicted.items()
    ]
    return sorted(shares, key=lambda share: -share.excess)[:LISTED]
