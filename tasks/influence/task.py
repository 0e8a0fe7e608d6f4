"""The select stage: rewarded trajectories → which samples the update may see."""

import logging
from collections.abc import Sequence

from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.errors import GraftError
from tasks.influence.influence import Scored, influences, validation_gradient
from tasks.influence.selection import select, selection_numbers
from tasks.layout import Layout
from tasks.params import Params
from tasks.policy.advantages import group_advantages, weighted
from tasks.policy.base import Policy, load_policy
from tasks.policy.samples import Sample, samples_of
from tasks.policy.tree_batch import scorer_of
from tasks.records import RewardedTrajectory, Selected

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Measure the influence of this round's training samples at the policy of the round before, and select."""
    assert round is not None
    policy = load_policy(layout.policy(round - 1), params.policy)
    trajectories = read_jsonl(layout.rewarded(round), RewardedTrajectory)
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
    negative_weight = params.grpo.negative_weight
    samples, validation = _samples(policy, train, negative_weight), _samples(policy, judges, negative_weight)
    advantages = [a for t in train for a in group_advantages(t.rewards)]
    scorer = scorer_of(policy, [*samples, *validation], params.search.temperature)
    direction = validation_gradient(scorer, validation)
    scored = influences(scorer, samples, direction)
    judged = any(s.advantage for s in validation)
    if not judged:
        logger.warning("no validation sample has a signal: every training sample that has one is kept")
    kept = select(params.influence.selection, [s.advantage for s in samples], [s.influence for s in scored], judged)
    write_jsonl(layout.selection(round), _lines(train, samples, advantages, scored, kept))
    numbers = selection_numbers(advantages, [s.influence for s in scored], kept)
    numbers["validation_samples"] = len(validation)
    numbers["validation_with_signal"] = sum(s.advantage != 0 for s in validation)
    numbers["all_kept"] = int(not judged)  # 1: validation said nothing, so that influence could not select
    write_json(layout.metrics("select", round), numbers)


def _samples(policy: Policy, trajectories: Sequence[RewardedTrajectory], negative_weight: float) -> list[Sample]:
    """With the advantages that the update will see: influence is that of the step which is really taken."""
    advantages = [weighted(group_advantages(t.rewards), negative_weight) for t in trajectories]
    return [s for t, a in zip(trajectories, advantages, strict=True) for s in samples_of(policy, t, a)]


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
