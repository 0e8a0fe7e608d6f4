"""The update stage: trajectories, their rewards and their selection → the round's policy."""

import logging
from collections.abc import Sequence

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.core.metrics_files import LiveRows
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.device import device_name
from tasks.model.distributed.collectives import rank
from tasks.model.distributed.processes import run_in_processes
from tasks.model.distributed.sharding import shard_base
from tasks.model.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.objective.groups import SampleGroup, read_groups
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.ppo.critic import start_round
from tasks.ppo.losses import with_ppo_objective
from tasks.records import Selected
from tasks.sources.fingerprint import fingerprint
from tasks.statistics.collapse import collapse_remarks
from tasks.update.checkpoint import Checkpoint
from tasks.update.compute import reference_scores, update_policy
from tasks.update.groups import selected_groups
from tasks.update.metrics import to_csv
from tasks.update.step_plan import UpdateGroup

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Update the policy of the round before on this round's selected samples, in `update.processes` processes."""
    assert round is not None
    if params.update.processes > 1:
        run_in_processes(run_update, layout, params, round)
    else:
        run_update(layout, params, round)


def run_update(layout: Layout, params: Params, round: int) -> None:
    """The update in one process, or in each of several; the first one writes.

    The reference is round 0's policy. It scores first and is then replaced: one model is in memory.
    """
    params = with_ppo_objective(params)
    update = params.update
    selection = read_jsonl(layout.selection(round), Selected)
    first = layout.policy(0 if update.beta > 0 else round - 1)
    policy = load_policy(first, shard=shard_base if update.sharded else None)
    splits = list(dict.fromkeys(["train", *(line.split for line in selection)]))
    by_split = read_groups(policy, layout, round, splits, update)
    checkpoint, live = _checkpoint(layout, params, round, policy), LiveRows(layout.live_steps(f"update@{round}"))
    reference = critic = None
    with explain_out_of_memory(update.micro_batch_tokens):
        if params.algorithm == "ppo":
            critic = start_round(layout, params, round, policy, by_split)
            policy, by_split, reference = critic.policy, critic.groups, critic.reference
        groups = _selected(layout, params, round, [g for split in splits for g in by_split[split]], selection)
        if critic is None and update.beta > 0:
            reference = reference_scores(policy, groups, params)
            policy = load_policy(layout.policy(round - 1), instead_of=policy)
        head = critic.head if critic else None
        result = update_policy(policy, groups, reference, params, round, checkpoint, live, head)
    if rank():
        return
    for remark in collapse_remarks(result.metrics):
        logger.warning("round %d: %s", round, remark)
    save_policy(policy, layout.policy(round), policy.version, round, critic.write_head if critic else None)
    write_text(layout.steps(round), to_csv(result.rows))
    write_json(layout.metrics("update", round), result.metrics)
    write_json(layout.speed(f"update@{round}"), {"tokens_per_second": result.tokens_per_second})
    checkpoint.remove()
    live.remove()


def _selected(
    layout: Layout, params: Params, round: int, groups: Sequence[SampleGroup], selection: Sequence[Selected]
) -> list[UpdateGroup]:
    try:
        return selected_groups(groups, selection, TokenWeights(params.update.loss, params.policy.max_new_tokens))
    except ValueError as error:
        raise GraftError(f"{layout.selection(round)}: {error}; run graft stage select@{round} again") from error


def _checkpoint(layout: Layout, params: Params, round: int, policy: Policy) -> Checkpoint:
    """The checkpoint of an update with these inputs. Threads, card and libraries are inputs: they move last digits."""
    import torch
    import transformers

    sources = layout.sources / "update.json"  # with the digest of a user's environment
    recorded = [layout.trajectories(round), layout.rewards(round), layout.validation(round), layout.selection(round)]
    reads = [sources, layout.policy(0), layout.policy(round - 1), *recorded]
    machine = (torch.__version__, transformers.__version__, torch.get_num_threads(), device_name(policy.device))
    return Checkpoint(layout.journals("update", round) / f"{fingerprint(reads, params, round, *machine)}.pt")
