"""The selection of a round without its files: a policy, its groups and the params → the lines of `selection.jsonl`."""

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from tasks.model.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for, with_constant_prompts
from tasks.objective.advantages import known_rewards, single_reward_groups
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.ppo.losses import first_step_losses
from tasks.records import Selected, Split
from tasks.seeds import derive_seed
from tasks.select.certificate import certify
from tasks.select.gradient_algebra import direction_cosine, direction_norm
from tasks.select.losses import TokenLosses, Validation
from tasks.select.metrics import selection_metrics
from tasks.select.reward_audit import AuditedRound
from tasks.select.tracin import NOT_MEASURED, SampleInfluence, influences

MEBIBYTE = 2**20

AUDIT_SHARE = 0.05
"""Samples whose gradients are computed next to an audit, as a share of training's: about 1 % of the update's passes."""

AUDIT_TRAIN = 0.4
"""Share of training's samples among them; the others are validation's, whose gradient is the noisier one."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Selection:
    """A line for each training sample, then one for each validation sample that the update may learn from."""

    lines: list[Selected]
    metrics: dict[str, float]


class Measurement(NamedTuple):
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
    audited: AuditedRound | None = None,
) -> Selection:
    """Select from `train` by influence on `validation`, or what the audit of its rewards rejects.

    `policy` is the one that the update starts from; with a value head the samples have targets, and their losses are
    PPO's. `audited`: of these groups, where `influence.selection` is audit. Raises GraftError where the certificate of
    influence fails.
    """
    own, samples = params.influence, samples_in(train)
    for groups in (train, validation):
        if single := single_reward_groups([g.baseline_rewards for g in groups]):
            logger.warning("groups with a single known reward, which is compared with the whole batch: %d", single)
    influence, kept, numbers = [NOT_MEASURED] * len(samples), _with_signal(samples), dict[str, float]()
    if own.selection == "positive":
        influence, kept, numbers = measure(policy, train, validation, params, round, value_head)
    elif audited is not None:
        influence, numbers = _measure_part(policy, train, validation, params, round, value_head)
        kept = [
            k and s.member not in audited.rejected.get(s.problem_id, ()) for k, s in zip(kept, samples, strict=True)
        ]
        numbers |= audited.metrics
    mixed: list[Selected] = []
    if own.train_on_validation and own.selection != "none":
        trusted = samples_in(validation)
        mixed = _lines(validation, [NOT_MEASURED] * len(trusted), _with_signal(trusted), "validation")
    lines = _lines(train, influence, kept)
    rewards = [reward for group in train for reward in group.baseline_rewards]
    found = selection_metrics(lines, rewards, [proposer for group in train for proposer in group.proposers])
    found |= {
        "lone_groups": single_reward_groups([g.baseline_rewards for g in train]),
        "mixed": sum(line.selected for line in mixed),
    }
    return Selection([*lines, *mixed], found | numbers)


def measure(
    policy: Policy,
    train: Sequence[SampleGroup],
    held_out: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any,
) -> Measurement:
    """Influence of the samples of `train` on those of `held_out`; with `influence.selection` positive checked, and
    what is kept by it.

    Where no sample of `train`, or none of `held_out`, has a signal, nothing is computed: those of `train` with a signal
    are kept.
    """
    own, samples = params.influence, samples_in(train)
    validation = Validation(samples_in(held_out), [advantage for group in held_out for advantage in group.advantages])
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
    tokens = params.update.micro_batch_tokens
    similarity = own.similarity if value_head is None else "dot"  # local compares by one advantage, PPO has one a token
    budget = own.memory_budget * MEBIBYTE
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
        sizes = [abs(advantage) for group in train for advantage in group.advantages]  # before update.negative_weight
        found = influences(scorer, samples, averaging, validation, similarity, budget, sizes, losses)
        numbers["validation_gradient_norm"] = direction_norm(found.gradient)
        numbers["train_gradient_norm"] = direction_norm(found.train_gradient)
        numbers["gradient_cosine"] = direction_cosine(found.train_gradient, found.gradient)
        if own.selection != "positive":  # nothing is decided by it
            return Measurement(found.each, kept, numbers)
        numbers |= certified(scorer, samples, found.each, averaging, validation, round, losses)
    return Measurement(found.each, [(s.influence or 0.0) > 0 for s in found.each], numbers | {"all_kept": 0})


def _measure_part(
    policy: Policy,
    train: Sequence[SampleGroup],
    held_out: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any,
) -> tuple[list[SampleInfluence], dict[str, float]]:
    """The influence of the samples of some random groups on some of validation's, for the page of the run.

    None is measured over weights without an adapter.
    """
    found = {group.problem_id: [NOT_MEASURED] * len(group.samples) for group in train}
    numbers = dict[str, float]()
    if policy.has_adapter:
        most = AUDIT_SHARE * len(samples_in(train))
        part = _random_part(train, AUDIT_TRAIN * most, round)
        measured = measure(
            policy, part, _random_part(held_out, (1 - AUDIT_TRAIN) * most, round), params, round, value_head
        )
        numbers, each = measured.metrics, iter(measured.influences)
        found |= {group.problem_id: [next(each) for _ in group.samples] for group in part}
    return [one for group in train for one in found[group.problem_id]], numbers


def _random_part(groups: Sequence[SampleGroup], most: float, round: int) -> list[SampleGroup]:
    """Groups with a signal, at least one and together of at most `most` samples; a function of problems and round."""
    order = sorted(groups, key=lambda group: derive_seed("part", round, group.problem_id))
    part, size = list[SampleGroup](), 0
    for group in order:
        if any(sample.has_signal for sample in group.samples):
            size += len(group.samples)
            if part and size > most:
                break
            part.append(group)
    return part


def certified(
    scorer: Scorer,
    samples: Sequence[Sample],
    scored: Sequence[SampleInfluence],
    averaging: TokenWeights,
    validation: Validation,
    round: int,
    token_losses: TokenLosses | None,
) -> dict[str, float]:
    """Metrics of the certificate. Raises GraftError where it fails."""
    products, seed = [s.product or 0.0 for s in scored], derive_seed("certificate", round)
    certificate = certify(scorer, samples, products, averaging, validation, seed, token_losses)
    certificate.check()
    numbers: dict[str, float] = {"certificate_steps": certificate.steps}
    if certificate.steps:
        numbers |= {"certificate_slope": certificate.slope, "certificate_signs": certificate.sign_agreement}
        numbers["validation_loss"] = certificate.loss
    return numbers


def _with_signal(samples: Sequence[Sample]) -> list[bool]:
    return [s.has_signal for s in samples]


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
