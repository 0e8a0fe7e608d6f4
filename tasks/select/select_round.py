"""The selection of a round over values: completions and models → which samples the update may see.

hold_out         validation's completions by the policy of the round, and the audit of training's rewards
select_round     at the models that the update starts from, by influence on them (select_samples.py)
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.core.out_of_memory import explain_out_of_memory
from tasks.errors import GraftError
from tasks.objective.groups import samples_in
from tasks.objective.sampler_check import check_sampler
from tasks.params.params import Params
from tasks.ppo.losses import with_ppo_objective
from tasks.records.problems import Split
from tasks.records.selection import REMEDY, RewardAudit
from tasks.round_start import Models, start_round
from tasks.select.reward_audit import audit_in_steps
from tasks.select.select_samples import Selection, select_samples
from tasks.trajectories import RewardedTrajectory

logger = logging.getLogger(__name__)

Sample = Callable[[int, int], Sequence[RewardedTrajectory]]
"""Rolls out validation problems: first, last → the completions of those of the round's draw from first up to last."""


class HeldOut(NamedTuple):
    """Validation's completions, which influence is measured on, and with `influence.selection` audit what it found."""

    rewarded: list[RewardedTrajectory]
    audit: RewardAudit | None


def hold_out(train: Sequence[RewardedTrajectory], sample: Sample, params: Params) -> HeldOut:
    """Sample as much of validation as the selection needs, and audit the rewards of `train` by it, where it audits."""
    own = params.influence
    if own.selection != "audit":
        return HeldOut([*sample(0, own.n)] if own.is_held_out else [], None)
    audit, rewarded = audit_in_steps(train, sample, own.n)
    logger.log(logging.WARNING if audit.answer == "err" else logging.INFO, "%s", audit.sentence)
    if audit.answer == "err":
        logger.warning("%s", REMEDY)
    return HeldOut(rewarded, audit)


def select_round(
    models: Models,
    train: Sequence[RewardedTrajectory],
    held_out: HeldOut,
    params: Params,
    round: int,
) -> Selection:
    """Select from the round's training completions, at the models of its start.

    In several processes all call it together. Raises GraftError where the sampler's log-probabilities are not the
    policy's, where influence has no validation problems, and where its certificate fails.
    """
    params, own = with_ppo_objective(params), params.influence
    if own.is_measured and own.is_held_out and not held_out.rewarded:
        raise GraftError(
            "no validation problems to measure influence with; raise problems.validation, or set influence.selection "
            "to audit"
        )
    splits: list[Split] = ["train", "validation"] if own.is_held_out else ["train"]
    tokens = params.update.micro_batch_tokens
    with explain_out_of_memory(tokens):
        start = start_round(models, [*train, *held_out.rewarded], splits, params)
        policy, groups = models.policy(), [group for split in splits for group in start.groups[split]]
        engine = next((group.engine for group in groups), None)
        checked = check_sampler(policy, samples_in(groups), engine, params.search.temperature, tokens, round)
    found = select_samples(
        policy, start.groups["train"], start.groups.get("validation", []), params, round, start.head, held_out.audit
    )
    if not any(line.selected for line in found.lines):
        logger.warning("nothing is selected: the update of round %d will change nothing", round)
    return Selection(found.lines, found.metrics | checked)


def processes_of(params: Params) -> int:
    """In how many processes a round is selected: one where no model computes, unless it does not fit into one."""
    update = params.update
    return 1 if params.influence.selection in ("none", "random") and not update.sharded else update.processes
