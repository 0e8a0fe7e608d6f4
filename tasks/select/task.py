"""Stage `select`: trajectories with their rewards, and validation's, → which samples the update may see."""

import logging
import shutil
from functools import partial

from tasks.artifacts import write_json, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.distributed.collectives import rank
from tasks.model.distributed.processes import run_in_processes
from tasks.model.distributed.sharding import shard_base
from tasks.model.out_of_memory import explain_out_of_memory
from tasks.model.policy import load_policy
from tasks.objective.groups import read_groups, read_trajectories, samples_in
from tasks.objective.sampler_check import check_sampler
from tasks.params.params import Params
from tasks.ppo.critic import start_round
from tasks.ppo.losses import with_ppo_objective
from tasks.records import REMEDY, RewardAudit, Split
from tasks.select.reward_audit import audit_in_steps
from tasks.select.select_samples import select_samples
from tasks.select.validation_rollout import write_validation
from tasks.trajectories import RewardedTrajectory

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Sample validation, audit the rewards by it, then select from this round's training samples.

    In `update.processes` processes where influence is measured or the model is sharded; they read the same validation.
    """
    assert round is not None
    own, audit = params.influence.selection, None
    try:
        if own == "audit":
            audit = audit_round(layout, params, round)
        else:
            write_validation(layout, params, round, params.influence.n if params.influence.is_held_out else 0)
        select = partial(run_selection, audit=audit)
        if params.update.processes > 1 and (own not in ("none", "random") or params.update.sharded):
            run_in_processes(select, layout, params, round)
        else:
            select(layout, params, round)
    except BaseException:
        shutil.rmtree(layout.validation(round), ignore_errors=True)  # a stage that fails leaves none of its outputs
        raise


def audit_round(layout: Layout, params: Params, round: int) -> RewardAudit:
    """Sample validation, audit the round's training rewards by it, and write what that found."""

    def sampled(count: int) -> list[RewardedTrajectory]:
        write_validation(layout, params, round, count)
        return list(read_trajectories(layout, round, ["validation"]))

    audit, _ = audit_in_steps(lambda: read_trajectories(layout, round, ["train"]), sampled, params.influence.n)
    write_json(layout.audit(round), audit)
    err = audit.answer == "err"
    logger.log(logging.WARNING if err else logging.INFO, "%s", audit.sentence)
    if err:
        logger.warning("%s", REMEDY)
    return audit


def run_selection(layout: Layout, params: Params, round: int, audit: RewardAudit | None = None) -> None:
    """Select at the policy of the round before; the first of several processes writes."""
    params = with_ppo_objective(params)
    by_ppo, own = params.algorithm == "ppo", params.influence
    start = layout.policy(0 if by_ppo and params.update.beta > 0 else round - 1)
    policy = load_policy(start, shard=shard_base if params.update.sharded else None)
    splits: list[Split] = ["train", "validation"] if own.is_held_out else ["train"]
    groups = read_groups(policy, layout, round, splits, params.update)
    if own.is_measured and own.is_held_out and not groups["validation"]:
        raise GraftError(
            f"{layout.problems('validation')}: no validation problems to measure influence with; raise "
            "problems.validation, or set influence.selection to audit"
        )
    recorded, tokens = [group for batch in groups.values() for group in batch], params.update.micro_batch_tokens
    engine, head = next((group.engine for group in recorded), None), None
    with explain_out_of_memory(tokens):
        if by_ppo:
            critic = start_round(layout, params, round, policy, groups)
            policy, head, groups = critic.policy, critic.head, critic.groups
        checked = check_sampler(policy, samples_in(recorded), engine, params.search.temperature, tokens, round)
    selection = select_samples(policy, groups["train"], groups.get("validation", []), params, round, head, audit)
    if rank():
        return
    if not any(line.selected for line in selection.lines):
        logger.warning("nothing is selected: the update of round %d will change nothing", round)
    write_jsonl(layout.selection(round), selection.lines)
    write_json(layout.metrics("select", round), selection.metrics | checked)
