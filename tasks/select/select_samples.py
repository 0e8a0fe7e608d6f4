"""The selection of a round over values: completions and models → which samples the update may see.

`hold_out` samples validation with the policy of the round, and audits training's rewards by it; `select_samples` then
selects, at the models that the update starts from, by influence on validation.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tasks.core.out_of_memory import explain_out_of_memory
from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.advantages import single_reward_groups
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.sampler_check import check_sampler
from tasks.params.params import Params
from tasks.ppo.losses import with_ppo_objective
from tasks.records.problems import Split
from tasks.records.selection import REMEDY, RewardAudit, Selected
from tasks.round_start import Models, RoundStart, start_round
from tasks.seeds import derive_seed
from tasks.select.influence import RoundInfluence, measure_influence
from tasks.select.metrics import selection_metrics
from tasks.select.reward_audit import audit_in_steps, audit_metrics
from tasks.select.strategies import ScoredSamples, keep
from tasks.select.tracin import NOT_MEASURED, SampleInfluence
from tasks.trajectories import RewardedTrajectory

AUDIT_SHARE = 0.05
"""Samples whose gradients are computed next to an audit, as a share of training's: about 1 % of the update's passes."""

AUDIT_TRAIN = 0.4
"""Share of training's samples among them; the others are validation's, whose gradient is the noisier one."""

logger = logging.getLogger(__name__)

ValidationRollout = Callable[[int, int], Sequence[RewardedTrajectory]]
"""Rolls out validation problems: first, last → the completions of those of the round's draw from first up to last."""


class HeldOut(NamedTuple):
    """Validation's completions, which influence is measured on, and with `influence.selection` audit what it found."""

    rewarded: list[RewardedTrajectory]
    audit: RewardAudit | None


@dataclass(frozen=True)
class Selection:
    """A line for each training sample, then one for each validation sample that the update may learn from."""

    lines: list[Selected]
    metrics: dict[str, float]


def hold_out(train: Sequence[RewardedTrajectory], sample: ValidationRollout, params: Params) -> HeldOut:
    """Sample as much of validation as the selection needs, and audit the rewards of `train` by it, where it audits."""
    influence = params.influence
    if influence.selection != "audit":
        return HeldOut([*sample(0, influence.n)] if influence.is_held_out else [], None)
    audit, rewarded = audit_in_steps(train, sample, influence.n)
    logger.log(logging.WARNING if audit.answer == "err" else logging.INFO, "%s", audit.sentence)
    if audit.answer == "err":
        logger.warning("%s", REMEDY)
    return HeldOut(rewarded, audit)


def select_samples(
    models: Models, train: Sequence[RewardedTrajectory], held_out: HeldOut, params: Params, round: int
) -> Selection:
    """Select from the round's training completions; with an audit only where it says that rewards err.

    In several processes all call it together. Raises GraftError where the sampler's log-probabilities are not the
    policy's, where influence has no validation problems, and where its certificate fails.
    """
    params, influence = with_ppo_objective(params), params.influence
    if influence.is_measured and influence.is_held_out and not held_out.rewarded:
        raise GraftError(
            "no validation problems to measure influence with; raise problems.validation, or set influence.selection "
            "to audit"
        )
    splits: list[Split] = ["train", "validation"] if influence.is_held_out else ["train"]
    tokens = params.update.micro_batch_tokens
    with explain_out_of_memory(tokens):
        start = start_round(models, [*train, *held_out.rewarded], splits, params)
        policy, groups = models.policy(), [group for split in splits for group in start.groups[split]]
        engine, samples = next((group.engine for group in groups), None), samples_in(groups)
        # Not in 16 bits, as the update may compute: its gradients are exact.
        scorer = scorer_for(
            policy, samples, params.search.temperature, tokens, checkpointing=params.update.checkpointing
        )
        checked = check_sampler(scorer, samples, engine, round)
    for split in splits:
        if single := single_reward_groups([group.baseline_rewards for group in start.groups[split]]):
            logger.warning("groups with a single known reward, which is compared with the whole batch: %d", single)
    measured, kept, numbers = _measure_and_keep(policy, scorer, start, held_out.audit, params, round)
    trained, mixed = start.groups["train"], list[Selected]()
    if influence.train_on_validation and influence.is_held_out:
        validation = start.groups["validation"]
        trusted = samples_in(validation)
        mixed = _lines(validation, [NOT_MEASURED] * len(trusted), [s.has_signal for s in trusted], "validation")
    lines = _lines(trained, measured.samples, kept)
    if not any(line.selected for line in [*lines, *mixed]):
        logger.warning("nothing is selected: the update of round %d will change nothing", round)
    rewards = [reward for group in trained for reward in group.baseline_rewards]
    metrics = selection_metrics(lines, rewards, [proposer for group in trained for proposer in group.proposers])
    metrics |= {
        "lone_groups": single_reward_groups([group.baseline_rewards for group in trained]),
        "mixed": sum(line.selected for line in mixed),
    }
    return Selection([*lines, *mixed], metrics | numbers | measured.metrics | checked)


def processes_of(params: Params) -> int:
    """In how many processes a round is selected: one where no model computes, unless it does not fit into one."""
    update = params.update
    return 1 if params.influence.selection in ("none", "random") and not update.sharded else update.processes


def _measure_and_keep(
    policy: Policy, scorer: Scorer, start: RoundStart, audit: RewardAudit | None, params: Params, round: int
) -> tuple[RoundInfluence, list[bool], dict[str, float]]:
    """The influence of training's samples, which of them are kept, and the metrics of the decision."""
    influence, train, validation = params.influence, start.groups["train"], start.groups.get("validation", [])
    samples = samples_in(train)
    measured = RoundInfluence([NOT_MEASURED] * len(samples), 0.0, {})
    kept, numbers = [s.has_signal for s in samples], dict[str, float]()
    errs = audit is not None and audit.answer == "err"
    by_influence = influence.is_measured or errs
    if audit is not None and not policy.has_adapter:
        if errs:
            logger.warning("rewards err, but influence needs an adapter and there is none: nothing is dropped")
    elif by_influence:
        measured = measure_influence(policy, scorer, train, validation, params, round, start.head, decides=True)
    elif audit is not None:
        measured = _measure_part(policy, scorer, train, validation, params, round, start.head)
    if influence.selection == "random" or (by_influence and measured.is_known):
        scored = ScoredSamples(
            samples,
            [score.influence or 0.0 for score in measured.samples],
            [s.has_signal for s in samples],
            [derive_seed(params.seed, "selection", round, s.problem_id, s.member) for s in samples],
            measured.threshold,
            influence.share,
        )
        kept = keep("positive" if errs else influence.selection, scored)
    elif by_influence and any(kept):
        logger.warning("no validation sample has a signal: every training sample that has one is kept")
    if influence.is_measured:
        numbers["all_kept"] = int(any(kept) and not measured.is_known)
    return measured, kept, numbers if audit is None else numbers | audit_metrics(audit)


def _measure_part(
    policy: Policy,
    scorer: Scorer,
    train: Sequence[SampleGroup],
    held_out: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: object,
) -> RoundInfluence:
    """The influence of the samples of some random groups on some of validation's, for the page of the run."""
    most = AUDIT_SHARE * len(samples_in(train))
    part = _random_part(train, AUDIT_TRAIN * most, round)
    validation = _random_part(held_out, (1 - AUDIT_TRAIN) * most, round)
    measured = measure_influence(policy, scorer, part, validation, params, round, value_head, decides=False)
    by_group, scores = (
        {group.problem_id: [NOT_MEASURED] * len(group.samples) for group in train},
        iter(measured.samples),
    )
    by_group |= {group.problem_id: [next(scores) for _ in group.samples] for group in part}
    return measured._replace(samples=[score for group in train for score in by_group[group.problem_id]])


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
    groups: Sequence[SampleGroup], scores: Sequence[SampleInfluence], kept: Sequence[bool], split: Split = "train"
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
        for (sample, name, advantage), score, selected in zip(members, scores, kept, strict=True)
    ]
