"""The select stage: rewarded trajectories → which samples the update may see."""

import logging
from collections.abc import Sequence

from tasks.artifacts import write_json, write_jsonl
from tasks.errors import GraftError
from tasks.influence.influence import Scored, influences, validation_gradient
from tasks.influence.selection import select, selection_numbers
from tasks.layout import Layout
from tasks.params import Grpo, Params
from tasks.policy.advantages import advantages_of, lone, weighted
from tasks.policy.averaging import Averaging
from tasks.policy.base import Policy, load_policy
from tasks.policy.fitting import fitting
from tasks.policy.memory import memory_named
from tasks.policy.samples import Sample, counted_rewards, samples_of
from tasks.policy.scorer import scorer_of
from tasks.records import RewardedTrajectory, Selected, Split

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Measure the influence of this round's training samples at the policy of the round before, and select."""
    assert round is not None
    policy = load_policy(layout.policy(round - 1), params.policy)
    splits: list[Split] = ["train"] if params.influence.validation == "same_batch" else ["train", "validation"]
    trajectories, unfit = fitting(policy, layout.rewarded(round), splits, params.grpo.unfit)
    train = [t for t in trajectories if t.split == "train"]
    judges = (
        train if params.influence.validation == "same_batch" else [t for t in trajectories if t.split == "validation"]
    )
    if not judges:
        split = "train" if judges is train else "validation"
        raise GraftError(
            f"{layout.rewarded(round)}: no {split} trajectories to measure influence with; "
            "set influence.validation to the other of held_out and same_batch"
        )
    grpo, averaging = params.grpo, Averaging(params.grpo.loss, params.policy.max_new_tokens)
    given = _advantages(policy, train, grpo)
    samples = _samples(policy, train, given, grpo.negative_weight)
    validation = _samples(policy, judges, _advantages(policy, judges, grpo), grpo.negative_weight)
    advantages = [a for group in given for a in group]
    scorer = scorer_of(policy, [*samples, *validation], params.search.temperature, grpo.micro_batch_tokens)
    with memory_named(grpo.micro_batch_tokens):
        direction = validation_gradient(scorer, validation, averaging)
        scored = influences(scorer, samples, direction, averaging)
    judged = any(s.advantage for s in validation)
    if not judged:
        logger.warning("no validation sample has a signal: every training sample that has one is kept")
    kept = select(params.influence.selection, [s.advantage for s in samples], [s.influence for s in scored], judged)
    write_jsonl(layout.selection(round), _lines(train, samples, advantages, scored, kept))
    numbers = selection_numbers(advantages, [s.influence for s in scored], kept)
    numbers["validation_samples"] = len(validation)
    numbers["validation_with_signal"] = sum(s.advantage != 0 for s in validation)
    numbers["unfit_samples"] = sum(unfit.values())
    numbers["lone_groups"] = lone([counted_rewards(policy, t, grpo.truncated) for t in train])  # see advantages.py
    numbers["all_kept"] = int(not judged)  # 1: validation said nothing, so that influence could not select
    write_json(layout.metrics("select", round), numbers)


def _advantages(policy: Policy, trajectories: Sequence[RewardedTrajectory], grpo: Grpo) -> list[list[float]]:
    rewards = [counted_rewards(policy, t, grpo.truncated) for t in trajectories]
    if lone(rewards):
        logger.warning("groups with a single known reward, which is compared with the whole batch: %d", lone(rewards))
    return advantages_of(grpo.advantages, rewards)


def _samples(
    policy: Policy,
    trajectories: Sequence[RewardedTrajectory],
    advantages: Sequence[Sequence[float]],
    negative_weight: float,
) -> list[Sample]:
    """With the advantages that the update will see: influence is that of the step which is really taken."""
    pairs = zip(trajectories, advantages, strict=True)
    return [s for t, given in pairs for s in samples_of(policy, t, weighted(given, negative_weight))]


def _lines(
    trajectories: Sequence[RewardedTrajectory],
    samples: Sequence[Sample],
    advantages: Sequence[float],
    scored: Sequence[Scored],
    kept: Sequence[bool],
) -> list[Selected]:
    names = [workflow_id for t in trajectories for workflow_id in t.workflow_ids]
    return [
        Selected(
            problem_id=sample.problem_id,
            member=sample.member,
            workflow_id=name,
            advantage=advantage,
            influence=score.influence,
            gradient_norm=score.gradient_norm,
            selected=keep,
        )
        for name, sample, advantage, score, keep in zip(names, samples, advantages, scored, kept, strict=True)
    ]
