"""The selection of a round without its files: a policy, its groups and the params → the lines of `selection.jsonl`."""

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from tasks.model.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for, with_constant_prompts
from tasks.objective.advantages import known_rewards, single_reward_groups
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.params.sections import Influence
from tasks.ppo.losses import first_step_losses
from tasks.records import Selected, Split
from tasks.seeds import derive_seed
from tasks.select.certificate import certify
from tasks.select.conformal_control import calibration_influences, shift_by_threshold
from tasks.select.gradient_algebra import direction_cosine, direction_norm
from tasks.select.gradient_passes import GradientPasses
from tasks.select.losses import TokenLosses, Validation
from tasks.select.metrics import selection_metrics
from tasks.select.sequential_test import Calibration, measure_groups
from tasks.select.tracin import (
    NOT_MEASURED,
    Measure,
    Products,
    SampleInfluence,
    cache_validation_gradients,
    measure_products,
)

MEBIBYTE = 2**20

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Selection:
    """A line for each training sample, then one for each validation sample that the update may learn from."""

    lines: list[Selected]
    metrics: dict[str, float]


@dataclass(frozen=True)
class Measurement:
    """The influence of each training sample, whether the update sees it, and the metrics of both."""

    influences: list[SampleInfluence]
    kept: list[bool]
    metrics: dict[str, float]


def select_samples(
    policy: Policy,
    train: Sequence[SampleGroup],
    validation: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any = None,
) -> Selection:
    """Select from `train` by influence on `validation`, which is not used where influence is not measured.

    `policy` is the one that the update starts from; with a value head the samples have targets, and their losses are
    PPO's. Raises GraftError where the certificate of influence fails.
    """
    own = params.influence
    for groups in (train, validation):
        if single := single_reward_groups([g.baseline_rewards for g in groups]):
            logger.warning("groups with a single known reward, which is compared with the whole batch: %d", single)
    mixed: list[Selected] = []
    if own.selection == "none":
        samples = samples_in(train)
        found = Measurement([NOT_MEASURED] * len(samples), _with_signal(samples), {})
    else:
        found = measure(policy, train, validation, params, round, value_head)
        if own.train_on_validation:
            samples = samples_in(validation)
            mixed = _lines(validation, [NOT_MEASURED] * len(samples), _with_signal(samples), "validation")
    lines = _lines(train, found.influences, found.kept)
    rewards = [reward for group in train for reward in group.baseline_rewards]
    numbers = selection_metrics(lines, rewards, [proposer for group in train for proposer in group.proposers])
    numbers |= {
        "lone_groups": single_reward_groups([g.baseline_rewards for g in train]),
        "mixed": sum(line.selected for line in mixed),
    }
    return Selection([*lines, *mixed], numbers | found.metrics)


def measure(
    policy: Policy,
    train: Sequence[SampleGroup],
    held_out: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any = None,
) -> Measurement:
    """Influence of the samples of `train` on those of `held_out`, checked and controlled, and what is kept by it.

    Where no sample of `train`, or none of `held_out`, has a signal, nothing is computed: those of `train` with a signal
    are kept.
    """
    own, validation, samples = params.influence, validation_of(held_out), samples_in(train)
    numbers: dict[str, float] = {
        "validation_samples": len(validation.samples),
        "validation_with_signal": sum(c != 0 for c in validation.coefficients),
    }
    if known := known_rewards(reward for group in held_out for reward in group.rewards):
        numbers["validation_mean_reward"] = fmean(known)
    kept = _with_signal(samples)
    if not any(kept) or not numbers["validation_with_signal"]:
        if any(kept):
            logger.warning("no validation sample has a signal: every training sample that has one is kept")
        return Measurement([NOT_MEASURED] * len(samples), kept, numbers | {"all_kept": int(any(kept))})
    averaging = TokenWeights(params.update.loss, params.policy.max_new_tokens)
    tokens, options = params.update.micro_batch_tokens, _options(own)
    scorer = scorer_for(
        policy,
        [*samples, *validation.samples],
        params.search.temperature,
        tokens,
        checkpointing=params.update.checkpointing,
    )
    losses = None
    if value_head is not None:
        frozen = deepcopy(value_head).requires_grad_(False)  # its own weights are no part of influence
        scorer = replace(scorer, value_head=frozen)
        losses = partial(first_step_losses, params.ppo)
    with explain_out_of_memory(tokens):
        scorer = with_constant_prompts(scorer, [*samples, *validation.samples])
        local = own.similarity == "local"
        cached = cache_validation_gradients(scorer, validation, options.budget) if local else None
        calibration = None
        if local and own.fdr_control:
            trusted = calibration_influences(scorer, averaging, validation, options, _sizes(held_out), samples, cached)
            calibration = Calibration(validation.samples, trusted)

        def measure_part(groups: Sequence[SampleGroup]) -> Products:
            given = (_sizes(groups), losses, cached, samples)
            return measure_products(scorer, samples_in(groups), averaging, validation, options, *given)

        in_parts = _is_cached(cached, validation)
        measured = measure_groups(train, measure_part, options, calibration if in_parts else None, round)
        found = measured.influences
        numbers["measured_share"] = measured.share
        numbers["validation_gradient_norm"] = direction_norm(found.gradient)
        numbers["train_gradient_norm"] = direction_norm(found.train_gradient)
        numbers["gradient_cosine"] = direction_cosine(found.train_gradient, found.gradient)
        numbers |= certified(scorer, samples, found.each, averaging, validation, round, losses)
        controlled: list[float] | None = [s.influence or 0.0 for s in found.each]
        if calibration:
            controlled = None
            if not measured.certain:
                controlled = shift_by_threshold(samples, found.each, calibration.samples, calibration.influences)
            numbers["fault_share"] = _fault_share(samples, controlled)
    if controlled is not None:
        kept = [s.has_signal and x > 0 for s, x in zip(samples, controlled, strict=True)]
    return Measurement(found.each, kept, numbers | {"all_kept": int(controlled is None)})


def validation_of(groups: Sequence[SampleGroup]) -> Validation:
    """The validation loss of these groups."""
    return Validation(samples_in(groups), [advantage for group in groups for advantage in group.advantages])


def certified(
    scorer: Scorer,
    samples: Sequence[Sample],
    scored: Sequence[SampleInfluence],
    averaging: TokenWeights,
    validation: Validation,
    round: int,
    token_losses: TokenLosses | None = None,
) -> dict[str, float]:
    """Metrics of the certificate. Raises GraftError where it fails."""
    products, seed = [s.product or 0.0 for s in scored], derive_seed("certificate", round)
    certificate = certify(scorer, samples, products, averaging, validation, seed, token_losses)
    certificate.check()
    numbers: dict[str, float] = {"certificate_steps": certificate.steps}
    if certificate.steps:
        numbers |= {"certificate_slope": certificate.slope, "certificate_signs": certificate.sign_agreement}
    if certificate.loss is not None:
        numbers["validation_loss"] = certificate.loss
    return numbers


def _is_cached(cached: GradientPasses | None, validation: Validation) -> bool:
    """Whether a part of the training samples can be measured without passing over validation again."""
    return cached is not None and cached.has_cached(validation.samples_with_signal)


def _sizes(groups: Sequence[SampleGroup]) -> list[float]:
    """|advantage| of each sample, before update.negative_weight."""
    return [abs(advantage) for group in groups for advantage in group.advantages]


def _with_signal(samples: Sequence[Sample]) -> list[bool]:
    return [s.has_signal for s in samples]


def _fault_share(samples: Sequence[Sample], controlled: Sequence[float] | None) -> float:
    """Share of the samples with a signal that control rejects."""
    if controlled is None:
        return 0.0
    return fmean(x <= 0 for s, x in zip(samples, controlled, strict=True) if s.has_signal)


def _options(own: Influence) -> Measure:
    return Measure(similarity=own.similarity, budget=own.memory_budget * MEBIBYTE)


def _lines(
    groups: Sequence[SampleGroup], scored: Sequence[SampleInfluence], kept: Sequence[bool], split: Split = "train"
) -> list[Selected]:
    members = [row for g in groups for row in zip(g.samples, g.workflow_ids, g.advantages, strict=True)]
    return [
        Selected(
            problem_id=sample.problem_id,
            member=sample.member,
            workflow_id=name,
            advantage=advantage,
            influence=score.influence,
            gradient_norm=score.gradient_norm,
            selected=selected,
            split=split,
        )
        for (sample, name, advantage), score, selected in zip(members, scored, kept, strict=True)
    ]
