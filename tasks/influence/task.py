"""The select stage: rewarded trajectories → which samples the update may see."""

import logging
from collections.abc import Sequence

from tasks.artifacts import write_json, write_jsonl
from tasks.errors import GraftError
from tasks.influence.certificate import certify
from tasks.influence.influence import NOT_MEASURED, Scored, influences
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
from tasks.seeds import derive_seed

MEBIBYTE = 2**20

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Select of this round's training samples, by their influence at the policy of the round before if it counts."""
    assert round is not None
    policy = load_policy(layout.policy(round - 1))
    alone = params.influence.selection == "none" or params.influence.validation == "same_batch"
    splits: list[Split] = ["train"] if alone else ["train", "validation"]
    trajectories, unfit = fitting(policy, layout, round, splits, params.grpo.unfit)
    train = [t for t in trajectories if t.split == "train"]
    given = _advantages(policy, train, params.grpo)
    samples = _samples(policy, train, given, params.grpo.negative_weight)
    advantages = [a for group in given for a in group]
    scored, heard = [NOT_MEASURED] * len(samples), dict[str, float]()
    if params.influence.selection != "none":
        judges = _judges(layout, params, round, trajectories)
        validation = _samples(policy, judges, _advantages(policy, judges, params.grpo), params.grpo.negative_weight)
        scored, certificate = _measured(policy, samples, validation, params, round)
        heard = _heard(validation) | certificate
    judged = heard.get("validation_with_signal", 0) > 0
    kept = select(params.influence.selection, [s.advantage for s in samples], [s.influence for s in scored], judged)
    write_jsonl(layout.selection(round), _lines(train, samples, advantages, scored, kept))
    numbers = selection_numbers(advantages, [s.influence for s in scored], kept)
    numbers["unfit_samples"] = sum(unfit.values())
    numbers["lone_groups"] = lone([counted_rewards(policy, t, params.grpo.truncated) for t in train])  # advantages.py
    write_json(layout.metrics("select", round), numbers | heard)


def _judges(
    layout: Layout, params: Params, round: int, trajectories: Sequence[RewardedTrajectory]
) -> list[RewardedTrajectory]:
    """What influence is measured against."""
    split = "train" if params.influence.validation == "same_batch" else "validation"
    judges = [t for t in trajectories if t.split == split]
    if not judges:
        raise GraftError(
            f"{layout.rewarded(round)}: no {split} trajectories to measure influence with; "
            "set influence.validation to the other of held_out and same_batch"
        )
    return judges


def _measured(
    policy: Policy, samples: list[Sample], validation: list[Sample], params: Params, round: int
) -> tuple[list[Scored], dict[str, float]]:
    """Influence, and the numbers of its certificate. Raises GraftError where that fails."""
    averaging, own = Averaging(params.grpo.loss, params.policy.max_new_tokens), params.influence
    alone = own.validation == "same_batch"
    scorer = scorer_of(policy, [*samples, *validation], params.search.temperature, params.grpo.micro_batch_tokens)
    with memory_named(params.grpo.micro_batch_tokens):
        judges = None if alone else validation
        scored = influences(scorer, samples, judges, averaging, own.exclude_self, own.memory_budget * MEBIBYTE)
        whole = [_with_own_vote(s) if alone and own.exclude_self else s.influence or 0.0 for s in scored]
        seed = derive_seed("certificate", round)
        found = certify(scorer, samples, validation, whole, averaging, seed)
    found.check()
    numbers: dict[str, float] = {"certificate_steps": found.steps}
    if found.steps:
        numbers |= {"certificate_slope": found.slope, "certificate_signs": found.sign_agreement}
    return scored, numbers


def _with_own_vote(scored: Scored) -> float:
    """Influence on a loss that the sample is a part of: its own vote is the square of its gradient."""
    return (scored.influence or 0.0) + (scored.gradient_norm or 0.0) ** 2


def _heard(validation: list[Sample]) -> dict[str, float]:
    """What validation says, in numbers. `all_kept` is 1 where it says nothing, so that influence cannot select."""
    with_signal = sum(s.advantage != 0 for s in validation)
    if not with_signal:
        logger.warning("no validation sample has a signal: every training sample that has one is kept")
    return {
        "validation_samples": len(validation),
        "validation_with_signal": with_signal,
        "all_kept": int(not with_signal),
    }


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
