"""Measures of a round's samples that `benchmarks.attribution` compares: each a number for each sample."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tasks.model.scoring.scorer import Scorer, with_constant_prompts
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.token_weights import TokenWeights
from tasks.seeds import derive_seed
from tasks.select.losses import Validation
from tasks.select.self_consistency import consistency_features, voters_of
from tasks.select.tracin import Estimator, influences
from tasks.statistics.logistic_regression import fit_logistic_regression
from tasks.trajectories import RewardedTrajectory

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

AVERAGING = TokenWeights("dapo", longest=64)


def measures(
    scorer: Scorer,
    train: Sequence[SampleGroup],
    validation: Validation,
    rewarded: Sequence[RewardedTrajectory],
    seed: int,
) -> dict[str, list[float]]:
    """Name → a number for each sample of `train`, but for exact influence. `rewarded`: of both splits."""
    samples = samples_in(train)
    own = Validation(samples, [advantage for group in train for advantage in group.advantages])

    def by(estimator: Estimator, use: Scorer = scorer, of: Validation = validation) -> list[float]:
        return [one.influence or 0.0 for one in influences(use, samples, AVERAGING, of, estimator).samples]

    constant = with_constant_prompts(scorer, [*samples, *validation.samples])
    return {
        "frozen": by(Estimator(), constant),
        "local": by(Estimator("local")),
        "same_batch": by(Estimator(leave_out="own"), of=own),
        "audit": agreement(train, rewarded),
        "reward": [s.advantage for s in samples],
        "random": [derive_seed("attribution", seed, s.problem_id, s.member) / 2**63 for s in samples],
    }


def agreement(train: Sequence[SampleGroup], rewarded: Sequence[RewardedTrajectory]) -> list[float]:
    """Sign of the advantage times how much more likely than not the audit's regression takes the sample for right."""
    import numpy as np

    features = {own.trajectory.problem_id: _features(own) for own in rewarded}
    trusted = [own for own in rewarded if own.trajectory.split == "validation"]
    model = fit_logistic_regression(
        np.concatenate([features[own.trajectory.problem_id] for own in trusted]),
        np.array([reward.reward for own in trusted for reward in own.rewards], dtype=np.float64),
    )
    chances = [p for group in train for p in model.predict(features[group.problem_id])]
    return [float(np.sign(s.advantage) * (2 * p - 1)) for s, p in zip(samples_in(train), chances, strict=True)]


def _features(rewarded: RewardedTrajectory) -> "NDArray[float64]":
    return consistency_features(rewarded.trajectory, voters_of(rewarded.trajectory, len(rewarded.rewards)))


Plant = Callable[[], list[float]]


def planted(
    scorer: Scorer, train: Sequence[SampleGroup], validation: Validation, right: Sequence[float]
) -> dict[str, Plant]:
    """Wrong influences that were made before, or might be: name → the products that they give."""
    samples = samples_in(train)

    def products(use: Scorer, averaging: TokenWeights = AVERAGING, of: Validation = validation) -> list[float]:
        return [one.product or 0.0 for one in influences(use, samples, averaging, of).samples]

    def shortened() -> Validation:
        return Validation([replace(s, completion=s.completion[:-1] or s.completion) for s in validation.samples],
                          validation.coefficients)  # fmt: skip

    own = Validation(samples, [advantage for group in train for advantage in group.advantages])
    return {
        "constant prompts": lambda: products(with_constant_prompts(scorer, [*samples, *validation.samples])),
        "wrong sign": lambda: [-x for x in right],
        "half the size": lambda: [x / 2 for x in right],
        "another temperature": lambda: products(replace(scorer, temperature=0.7)),
        "without the last token": lambda: products(scorer, of=shortened()),
        "another mean": lambda: products(scorer, TokenWeights("dr_grpo", longest=64)),
        "another validation": lambda: products(scorer, of=own),
        "all of one size": lambda: [(x > 0) - (x < 0) for x in right],
    }
