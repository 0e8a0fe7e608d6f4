"""The selection of a round without its files: a policy, its groups and the params → the lines of `selection.jsonl`."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.objective.advantages import single_reward_groups
from tasks.objective.groups import SampleGroup, samples_in
from tasks.params.params import Params
from tasks.records.problems import Split
from tasks.records.selection import RewardAudit, Selected
from tasks.seeds import derive_seed
from tasks.select.measure import Measurement, measure
from tasks.select.metrics import selection_metrics
from tasks.select.reward_audit import audit_metrics
from tasks.select.strategies import Measured, keep
from tasks.select.tracin import NOT_MEASURED, SampleInfluence

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


def select_samples(
    policy: Policy,
    train: Sequence[SampleGroup],
    validation: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any = None,
    audit: RewardAudit | None = None,
) -> Selection:
    """Select from `train` by influence on `validation`; with an audit only where it says that rewards err.

    `policy` is the one that the update starts from; with a value head the samples have targets, and their losses are
    PPO's. `audit`: of these groups, where `influence.selection` is audit. Raises GraftError where the certificate of
    influence fails.
    """
    own, samples = params.influence, samples_in(train)
    for groups in (train, validation):
        if single := single_reward_groups([g.baseline_rewards for g in groups]):
            logger.warning("groups with a single known reward, which is compared with the whole batch: %d", single)
    found = Measurement([NOT_MEASURED] * len(samples), 0.0, {})
    kept, numbers = [s.has_signal for s in samples], dict[str, float]()
    errs = audit is not None and audit.answer == "err"
    by_influence = own.is_measured or errs
    if audit is not None and not policy.has_adapter:
        if errs:
            logger.warning("rewards err, but influence needs an adapter and there is none: nothing is dropped")
    elif by_influence:
        found = measure(policy, train, validation, params, round, value_head, decides=True)
    elif audit is not None:
        found = _measure_part(policy, train, validation, params, round, value_head)
    if own.selection == "random" or (by_influence and found.is_measured):
        kept = keep("positive" if errs else own.selection, _measured(samples, found, params, round))
    elif by_influence and any(kept):
        logger.warning("no validation sample has a signal: every training sample that has one is kept")
    if own.is_measured:
        numbers["all_kept"] = int(any(kept) and not found.is_measured)
    if audit is not None:
        numbers |= audit_metrics(audit)
    numbers |= found.metrics
    mixed: list[Selected] = []
    if own.train_on_validation and own.is_held_out:
        trusted = samples_in(validation)
        mixed = _lines(validation, [NOT_MEASURED] * len(trusted), [s.has_signal for s in trusted], "validation")
    lines = _lines(train, found.each, kept)
    rewards = [reward for group in train for reward in group.baseline_rewards]
    own_metrics = selection_metrics(lines, rewards, [proposer for group in train for proposer in group.proposers])
    own_metrics |= {
        "lone_groups": single_reward_groups([g.baseline_rewards for g in train]),
        "mixed": sum(line.selected for line in mixed),
    }
    return Selection([*lines, *mixed], own_metrics | numbers)


def _measured(samples: Sequence[Sample], found: Measurement, params: Params, round: int) -> Measured:
    return Measured(
        samples,
        [one.influence or 0.0 for one in found.each],
        [s.has_signal for s in samples],
        [derive_seed(params.seed, "selection", round, s.problem_id, s.member) for s in samples],
        found.threshold,
        params.influence.share,
    )


def _measure_part(
    policy: Policy,
    train: Sequence[SampleGroup],
    held_out: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any,
) -> Measurement:
    """The influence of the samples of some random groups on some of validation's, for the page of the run."""
    most = AUDIT_SHARE * len(samples_in(train))
    part = _random_part(train, AUDIT_TRAIN * most, round)
    others = _random_part(held_out, (1 - AUDIT_TRAIN) * most, round)
    measured = measure(policy, part, others, params, round, value_head, decides=False)
    by_group, each = {group.problem_id: [NOT_MEASURED] * len(group.samples) for group in train}, iter(measured.each)
    by_group |= {group.problem_id: [next(each) for _ in group.samples] for group in part}
    return measured._replace(each=[one for group in train for one in by_group[group.problem_id]])


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
