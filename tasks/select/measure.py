"""Influence of a round's samples: the validation loss, TracIn, its certificate and its control, by the params."""

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from tasks.core.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for, with_constant_prompts
from tasks.objective.advantages import known_rewards
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.losses import first_step_losses
from tasks.objective.surrogates import LOSSES
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.ppo.losses import first_step_losses as ppo_losses
from tasks.seeds import derive_seed
from tasks.select.certificate import certify, draw, validation_loss, without_penalties
from tasks.select.conformal_control import rejection_threshold
from tasks.select.gradient_algebra import direction_cosine, direction_norm
from tasks.select.gradient_passes import GradientPasses
from tasks.select.losses import TokenLosses, Validation
from tasks.select.tracin import NOT_MEASURED, Influences, Measure, SampleInfluence, cached_gradients, influences
from tasks.select.validation_samples import validation_of
from tasks.update.compute import update_scorer
from tasks.update.gradient import objective_of

MEBIBYTE = 2**20

logger = logging.getLogger(__name__)


class Measurement(NamedTuple):
    """The influence of each training sample, the highest that control rejects, and metrics. Where validation has no
    signal none is measured."""

    each: list[SampleInfluence]
    threshold: float
    metrics: dict[str, float]

    @property
    def is_measured(self) -> bool:
        return any(one.influence is not None for one in self.each)


@dataclass(frozen=True)
class _Round:
    """A policy, the samples of a round, and the validation loss."""

    policy: Policy
    samples: list[Sample]
    sizes: list[float]  # |advantage| of each sample, before update.negative_weight
    validation: Validation
    params: Params
    value_head: Any

    @property
    def averaging(self) -> TokenWeights:
        return TokenWeights(self.params.update.loss, self.params.policy.max_new_tokens)

    @property
    def token_losses(self) -> TokenLosses | None:
        """PPO's or those of a user's loss; None for others, whose gradient at ratio 1 is a multiple of ∇ log p."""
        if self.value_head is not None:
            return partial(ppo_losses, self.params.ppo)
        update = self.params.update
        if update.loss in LOSSES:
            return None
        return partial(first_step_losses, objective_of(without_penalties(update)))

    @property
    def measure(self) -> Measure:
        own = self.params.influence
        # local compares by one advantage and ∇ log p
        similarity = own.similarity if self.token_losses is None else "dot"
        leaves_own = own.validation == "same_batch" and not own.own_vote
        return Measure(similarity, "own" if leaves_own else None, own.memory_budget * MEBIBYTE)

    def scorer(self) -> Scorer:
        """Of influence, with exact gradients."""
        update = self.params.update
        scored = [*self.samples, *self.validation.samples]
        scorer = scorer_for(
            self.policy,
            scored,
            self.params.search.temperature,
            update.micro_batch_tokens,
            checkpointing=update.checkpointing,
        )
        if self.value_head is None:
            return scorer
        frozen = deepcopy(self.value_head).requires_grad_(False)  # its own weights are no part of influence
        return replace(scorer, value_head=frozen)

    def influences(self, scorer: Scorer, samples: Sequence[Sample], **options: Any) -> Influences:
        return influences(scorer, samples, self.averaging, self.validation, token_losses=self.token_losses, **options)


def measure(
    policy: Policy,
    train: Sequence[SampleGroup],
    held_out: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any,
    decides: bool,
) -> Measurement:
    """Influence of the samples of `train` on the validation loss of `held_out`, or with `influence.validation`
    same_batch of `train`.

    Where it `decides` it is certified, and raises GraftError where the certificate fails. Nothing is computed where no
    sample of training, or none of validation, has a signal.
    """
    own = params.influence
    groups = train if own.validation == "same_batch" else held_out
    validation = validation_of(groups, own, round)
    sizes = [abs(advantage) for group in train for advantage in group.advantages]
    task = _Round(policy, samples_in(train), sizes, validation, params, value_head)
    numbers: dict[str, float] = {
        "validation_samples": len(validation.samples),
        "validation_with_signal": sum(c != 0 for c in validation.coefficients),
    }
    if known := known_rewards(reward for group in groups for reward in group.rewards):
        numbers["validation_mean_reward"] = fmean(known)
    if not any(s.has_signal for s in task.samples) or not numbers["validation_with_signal"]:
        return Measurement([NOT_MEASURED] * len(task.samples), 0.0, numbers)
    tokens = params.update.micro_batch_tokens
    with explain_out_of_memory(tokens):
        scorer, exact = task.scorer(), None
        if own.prompts == "constant":
            scorer, exact = with_constant_prompts(scorer, [*task.samples, *validation.samples]), scorer
        pairs = task.measure.similarity == "local"
        cached = cached_gradients(scorer, validation, task.measure.budget) if pairs else None
        found = task.influences(scorer, task.samples, measure=task.measure, mean_weights=task.sizes, cached=cached)
        numbers |= _gradient_metrics(found)
        update = update_scorer(policy, [*task.samples, *validation.samples], params)
        update = replace(update, value_head=deepcopy(value_head))
        if not decides:
            numbers["validation_loss"] = validation_loss(replace(update, bf16=False), validation)
            return Measurement(found.each, 0.0, numbers)
        products = [one.product or 0.0 for one in found.each]
        if exact:
            products, agreement = _exact_products(task, exact, products, round)
            numbers |= agreement
        certificate = certify(
            update,
            task.samples,
            products,
            validation,
            params.update,
            params.policy.max_new_tokens,
            derive_seed("certificate", round),
            params.ppo if value_head is not None else None,
        )
        certificate.check()
        numbers |= certificate.metrics
        threshold = 0.0
        if own.fdr_control and own.selection == "positive" and own.validation == "held_out":
            threshold = min(_threshold(task, scorer, found.each, groups, cached), 0.0)
    return Measurement(found.each, threshold, numbers)


def _gradient_metrics(found: Influences) -> dict[str, float]:
    return {
        "validation_gradient_norm": direction_norm(found.gradient),
        "train_gradient_norm": direction_norm(found.train_gradient),
        "gradient_cosine": direction_cosine(found.train_gradient, found.gradient),
    }


def _exact_products(
    task: _Round, exact: Scorer, products: Sequence[float], round: int
) -> tuple[list[float], dict[str, float]]:
    """The exact ⟨∇L_i, ∇L_val⟩ of the samples that the certificate draws, 0 of the others; and how the given ones, by
    constant prompts, agree with them: share of equal signs, and Pearson's correlation."""
    from scipy.stats import pearsonr

    drawn = [s for step in draw(task.samples, products, derive_seed("certificate", round)) for s, _ in step]
    chosen = {(s.problem_id, s.member) for s in drawn}
    found = task.influences(exact, drawn, step_samples=task.samples)
    by_sample = {(s.problem_id, s.member): one.product or 0.0 for s, one in zip(drawn, found.each, strict=True)}
    names = [(s.problem_id, s.member) for s in task.samples]
    pairs = [(x, by_sample[name]) for name, x in zip(names, products, strict=True) if name in chosen]
    ours, theirs = zip(*pairs, strict=True)
    varies = len(set(ours)) > 1 and len(set(theirs)) > 1
    agreement = {
        "constant_prompts_signs": fmean(a * b > 0 for a, b in pairs),
        "constant_prompts_correlation": float(pearsonr(ours, theirs).statistic) if varies else 0.0,
    }
    return [by_sample.get(name, 0.0) for name in names], agreement


def _threshold(
    task: _Round,
    scorer: Scorer,
    each: Sequence[SampleInfluence],
    groups: Sequence[SampleGroup],
    cached: GradientPasses | None,
) -> float:
    """The highest influence of a training sample that control rejects; -∞ where it rejects none.

    Validation's samples, with the influence that each would have without the votes of its own problem, calibrate it.
    """
    taken = {(s.problem_id, s.member) for s in task.validation.samples}
    held_out = [
        (s, abs(a))
        for g in groups
        for s, a in zip(g.samples, g.advantages, strict=True)
        if (s.problem_id, s.member) in taken
    ]
    found = task.influences(
        scorer,
        [s for s, _ in held_out],
        measure=replace(task.measure, leave_out="group"),
        mean_weights=[size for _, size in held_out],
        step_samples=task.samples,
        cached=cached,
    )
    calibration = [one.influence or 0.0 for (s, _), one in zip(held_out, found.each, strict=True) if s.has_signal]
    training = [one.influence or 0.0 for s, one in zip(task.samples, each, strict=True) if s.has_signal]
    threshold = rejection_threshold(training, calibration)
    return float("-inf") if threshold is None else threshold
