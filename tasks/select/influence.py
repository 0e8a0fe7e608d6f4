"""Influence of a round's samples by the params: the validation loss, TracIn, its certificate and its control.

The control says which training samples' influence is too low for a sample with a right reward. Validation's samples,
whose rewards are trusted, calibrate it. For a training sample with influence x

    p = (1 + calibration values ≤ x) / (1 + calibration values)

is the probability of a value as low although its reward is right (a conformal p-value: Bates et al. 2023, Testing for
Outliers with Conformal p-values, §2). The rule of Benjamini and Hochberg then gives the threshold below which at most a
share FALSE_DISCOVERY_RATE of the samples is expected to be right.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from tasks.core.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, with_constant_prompts
from tasks.objective.advantages import known_rewards
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.losses import first_step_losses
from tasks.objective.surrogates import LOSSES
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.ppo.losses import first_step_losses as ppo_losses
from tasks.seeds import derive_seed
from tasks.select.certificate import certify, draw, validation_loss, without_penalties
from tasks.select.gradient_passes import GradientPasses
from tasks.select.losses import TokenLossFunction, Validation, validation_of
from tasks.select.sample_gradients import direction_cosine, direction_norm
from tasks.select.tracin import NOT_MEASURED, Estimator, Influences, SampleInfluence, cached_gradients, influences
from tasks.update.compute import update_scorer
from tasks.update.gradient import objective_of

MEBIBYTE = 2**20

FALSE_DISCOVERY_RATE = 1 / 3
"""Share of the dropped samples that may be right: losing them costs less than learning from wrong ones."""


class RoundInfluence(NamedTuple):
    """The influence of each training sample, the highest that control rejects, and metrics."""

    samples: list[SampleInfluence]
    threshold: float
    metrics: dict[str, float]

    @property
    def is_known(self) -> bool:
        """Whether any was measured; none is where validation has no signal."""
        return any(score.influence is not None for score in self.samples)


@dataclass(frozen=True)
class _Inputs:
    """What influence is measured from: the samples of a round, and the validation loss."""

    samples: list[Sample]
    sizes: list[float]  # |advantage| of each sample, before update.negative_weight
    validation: Validation
    params: Params
    value_head: Any

    @property
    def token_losses(self) -> TokenLossFunction | None:
        """PPO's or those of a user's loss; None for others, whose gradient at ratio 1 is a multiple of ∇ log p."""
        if self.value_head is not None:
            return partial(ppo_losses, self.params.ppo)
        update = self.params.update
        if update.loss in LOSSES:
            return None
        return partial(first_step_losses, objective_of(without_penalties(update)))

    @property
    def estimator(self) -> Estimator:
        influence = self.params.influence
        # `local` compares completions by ∇ log p and one advantage each; token losses have neither.
        similarity = influence.similarity if self.token_losses is None else "dot"
        leaves_own = influence.validation == "same_batch" and not influence.own_vote
        return Estimator(similarity, "own" if leaves_own else None, influence.memory_budget * MEBIBYTE)

    def influences(self, scorer: Scorer, samples: Sequence[Sample], **options: Any) -> Influences:
        averaging = TokenWeights(self.params.update.loss, self.params.policy.max_new_tokens)
        return influences(scorer, samples, averaging, self.validation, token_losses=self.token_losses, **options)


def measure_influence(
    policy: Policy,
    exact: Scorer,
    train: Sequence[SampleGroup],
    held_out: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any,
    decides: bool,
) -> RoundInfluence:
    """Influence of the samples of `train` on the validation loss of `held_out`, or with `influence.validation`
    same_batch of `train`.

    `exact`: a scorer of the round's samples. Where it `decides` it is certified, and raises GraftError where the
    certificate fails. Nothing is computed where no sample of training, or none of validation, has a signal.
    """
    influence = params.influence
    groups = train if influence.validation == "same_batch" else held_out
    validation = validation_of(groups, influence, round)
    sizes = [abs(advantage) for group in train for advantage in group.advantages]
    inputs = _Inputs(samples_in(train), sizes, validation, params, value_head)
    samples = [*inputs.samples, *validation.samples]
    metrics: dict[str, float] = {
        "validation_samples": len(validation.samples),
        "validation_with_signal": sum(c != 0 for c in validation.coefficients),
    }
    if known := known_rewards(reward for group in groups for reward in group.rewards):
        metrics["validation_mean_reward"] = fmean(known)
    if not any(s.has_signal for s in inputs.samples) or not metrics["validation_with_signal"]:
        return RoundInfluence([NOT_MEASURED] * len(inputs.samples), 0.0, metrics)
    with explain_out_of_memory(params.update.micro_batch_tokens):
        if value_head is not None:
            # The head's own weights are no part of influence; a copy, as the update trains the original.
            exact = replace(exact, value_head=deepcopy(value_head).requires_grad_(False))
        is_constant = influence.prompts == "constant"
        scorer = with_constant_prompts(exact, samples) if is_constant else exact
        # Control passes over validation a second time: what `local` has in memory anyway serves both.
        in_pairs = inputs.estimator.similarity == "local"
        cached = cached_gradients(scorer, validation, inputs.estimator.budget) if in_pairs else None
        measured = inputs.influences(
            scorer, inputs.samples, estimator=inputs.estimator, mean_weights=inputs.sizes, cached=cached
        )
        metrics |= {
            "validation_gradient_norm": direction_norm(measured.gradient),
            "train_gradient_norm": direction_norm(measured.train_gradient),
            "gradient_cosine": direction_cosine(measured.train_gradient, measured.gradient),
        }
        if not decides:
            metrics["validation_loss"] = validation_loss(exact, validation)
            return RoundInfluence(measured.samples, 0.0, metrics)
        update = replace(update_scorer(policy, samples, params), value_head=deepcopy(value_head))
        products = [score.product or 0.0 for score in measured.samples]
        if is_constant:
            products, agreement = _exact_products(inputs, exact, products, round)
            metrics |= agreement
        certificate = certify(
            update,
            inputs.samples,
            products,
            validation,
            params.update,
            params.policy.max_new_tokens,
            derive_seed("certificate", round),
            params.ppo if value_head is not None else None,
        )
        certificate.check()
        metrics |= certificate.metrics
        threshold = 0.0
        if influence.fdr_control and influence.selection == "positive" and influence.validation == "held_out":
            # Never above 0: control forgives a low influence, it does not drop what helps.
            threshold = min(_threshold(inputs, scorer, measured.samples, groups, cached), 0.0)
    return RoundInfluence(measured.samples, threshold, metrics)


def _exact_products(
    inputs: _Inputs, exact: Scorer, products: Sequence[float], round: int
) -> tuple[list[float], dict[str, float]]:
    """The exact ⟨∇L_i, ∇L_val⟩ of the samples that the certificate draws, 0 of the others; and how the `products` by
    constant prompts agree with them: share of equal signs, and Pearson's correlation."""
    from scipy.stats import pearsonr

    # The same seed as the certificate's: these are the samples that it will draw.
    drawn = [s for step in draw(inputs.samples, products, derive_seed("certificate", round)) for s, _ in step]
    scores = inputs.influences(exact, drawn, step_samples=inputs.samples).samples
    by_sample = {(s.problem_id, s.member): score.product or 0.0 for s, score in zip(drawn, scores, strict=True)}
    names = [(s.problem_id, s.member) for s in inputs.samples]
    pairs = [(x, by_sample[name]) for name, x in zip(names, products, strict=True) if name in by_sample]
    approximate, right = zip(*pairs, strict=True)
    varies = len(set(approximate)) > 1 and len(set(right)) > 1
    agreement = {
        "constant_prompts_signs": fmean(a * b > 0 for a, b in pairs),
        "constant_prompts_correlation": float(pearsonr(approximate, right).statistic) if varies else 0.0,
    }
    return [by_sample.get(name, 0.0) for name in names], agreement


def _threshold(
    inputs: _Inputs,
    scorer: Scorer,
    scores: Sequence[SampleInfluence],
    groups: Sequence[SampleGroup],
    cached: GradientPasses | None,
) -> float:
    """The highest influence of a training sample that control rejects; -∞ where it rejects none.

    Validation's samples, with the influence that each would have without the votes of its own problem, calibrate it.
    """
    taken = {(s.problem_id, s.member) for s in inputs.validation.samples}
    held_out = [
        (s, abs(a))
        for g in groups
        for s, a in zip(g.samples, g.advantages, strict=True)
        if (s.problem_id, s.member) in taken
    ]
    calibrating = inputs.influences(
        scorer,
        [s for s, _ in held_out],
        estimator=replace(inputs.estimator, leave_out="group"),
        mean_weights=[size for _, size in held_out],
        step_samples=inputs.samples,
        cached=cached,
    ).samples
    calibration = [score.influence or 0.0 for (s, _), score in zip(held_out, calibrating, strict=True) if s.has_signal]
    training = [score.influence or 0.0 for s, score in zip(inputs.samples, scores, strict=True) if s.has_signal]
    threshold = rejection_threshold(training, calibration)
    return float("-inf") if threshold is None else threshold


def rejection_threshold(training: Sequence[float], calibration: Sequence[float]) -> float | None:
    """The highest training value that is rejected; None where none is."""
    import numpy as np
    from scipy.stats import false_discovery_control

    if not training or not calibration:
        return None
    lower = np.searchsorted(np.sort(calibration), training, side="right")
    rejected = false_discovery_control((1 + lower) / (1 + len(calibration))) <= FALSE_DISCOVERY_RATE
    return max((x for x, is_rejected in zip(training, rejected, strict=True) if is_rejected), default=None)
