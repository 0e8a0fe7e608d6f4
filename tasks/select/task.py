"""The select stage: trajectories with their rewards → which samples the update may see."""

import logging
from functools import partial

from tasks.artifacts import write_json, write_jsonl
from tasks.environments.lookup import environment_in
from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.distributed.collectives import rank
from tasks.model.distributed.sharding import shard_base
from tasks.model.distributed.torchrun import run_in_processes
from tasks.model.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy, load_policy
from tasks.objective.groups import GroupsBySplit, SampleGroup, read_groups, sample_groups, samples_in
from tasks.objective.recorded_completions import read_valid_file
from tasks.objective.sampler_check import check_sampler
from tasks.params.params import Params
from tasks.ppo.critic import start_round
from tasks.ppo.losses import with_ppo_objective
from tasks.records import Split
from tasks.select.select_samples import select_samples

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Select from this round's training samples, in `update.processes` processes where influence is measured or the
    model is sharded."""
    assert round is not None
    if params.update.processes > 1 and (params.influence.is_measured or params.update.sharded):
        run_in_processes(run_selection, layout, params, round)
    else:
        run_selection(layout, params, round)


def run_selection(layout: Layout, params: Params, round: int) -> None:
    """Select at the policy of the round before; the first of several processes writes."""
    params = with_ppo_objective(params)
    by_ppo, own = params.algorithm == "ppo", params.influence
    start = layout.policy(0 if by_ppo and params.update.beta > 0 else round - 1)
    policy = load_policy(start, shard=shard_base if params.update.sharded else None)
    splits: list[Split] = ["train", "validation"] if own.holds_out else ["train"]
    environment = environment_in(layout.root, params)
    groups = read_groups(policy, environment, layout, round, splits, params.update)
    validation = _validation(layout, params, round, policy, environment, groups) if own.is_measured else []
    train, head = groups["train"], None
    if by_ppo:
        batches: GroupsBySplit = {"train": train} if validation is train else {"train": train, "validation": validation}
        with explain_out_of_memory(params.update.micro_batch_tokens):
            critic = start_round(layout, params, round, policy, batches)
        policy, head, train = critic.policy, critic.head, critic.groups["train"]
        validation = critic.groups.get("validation", train)
    checked = _check_sampler(layout, params, round, policy, groups)
    selection = select_samples(policy, train, validation, params, round, head)
    if rank():
        return
    if not any(line.selected for line in selection.lines):
        logger.warning("nothing is selected: the update of round %d will change nothing", round)
    write_jsonl(layout.selection(round), selection.lines)
    write_json(layout.metrics("select", round), selection.metrics | checked)


def _check_sampler(
    layout: Layout, params: Params, round: int, policy: Policy, groups: GroupsBySplit
) -> dict[str, float]:
    """Metrics of the server that sampled the groups, {} where it was Graft. Raises GraftError where its numbers are not
    the policy's."""
    before, update = round - 2, params.update
    previous = partial(load_policy, layout.policy(before), instead_of=policy) if before >= 0 else None
    listed = [group for batch in groups.values() for group in batch]
    engine = next((group.engine for group in listed), None)
    with explain_out_of_memory(update.micro_batch_tokens):
        return check_sampler(
            policy, samples_in(listed), engine, params.search.temperature, update.micro_batch_tokens, round, previous
        )


def _validation(
    layout: Layout, params: Params, round: int, policy: Policy, environment: Environment, groups: GroupsBySplit
) -> list[SampleGroup]:
    """The groups that influence is measured on. Raises GraftError where there are none."""
    own, found = params.influence, groups["train"]
    if own.validation == "held_out":
        found = groups["validation"]
    elif own.trajectories is not None:
        path = layout.root / own.trajectories
        found = sample_groups(policy, read_valid_file(policy, environment, path), params.update)
    if not found:
        raise GraftError(
            f"{own.trajectories or layout.trajectories(round)}: no trajectories to measure influence with; "
            "set influence.validation to held_out, same_batch or another file"
        )
    return found
