"""The update stage: trajectories, their rewards and their selection → the round's policy."""

import logging

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.core.metrics_files import LiveRows
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.device import device_name
from tasks.model.distributed.collectives import rank
from tasks.model.distributed.processes import run_in_processes
from tasks.model.policy import policy_device, save_policy
from tasks.model.training_checkpoint import Checkpoint
from tasks.objective.groups import read_trajectories
from tasks.params.params import Params
from tasks.records.selection import Selected
from tasks.round_start import StoredModels
from tasks.sources.fingerprint import fingerprint
from tasks.sources.user_code import find_modules_in
from tasks.statistics.collapse import collapse_remarks
from tasks.update.compute import update_round
from tasks.update.metrics import to_csv
from tasks.update.step_plan import SelectionError

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Update the policy of the round before on this round's selected samples, in `update.processes` processes."""
    assert round is not None
    run_in_processes(update, params.update.processes, layout, params, round)


def update(layout: Layout, params: Params, round: int) -> None:
    """The update in one process, or in each of several; the first one writes."""
    find_modules_in(layout.root, params.update.loss, params.update.advantages)
    lines = read_jsonl(layout.selection(round), Selected)
    splits = list(dict.fromkeys(["train", *(line.split for line in lines)]))
    checkpoint, live = _checkpoint(layout, params, round), LiveRows(layout.live_steps(f"update@{round}"))
    try:
        policy, start, result = update_round(
            StoredModels(layout, params, round),
            read_trajectories(layout, round, splits),
            lines,
            params,
            round,
            checkpoint,
            live,
        )
    except SelectionError as error:
        raise GraftError(f"{layout.selection(round)}: {error}; run graft stage select@{round} again") from error
    if rank():
        return
    for remark in collapse_remarks(result.metrics):
        logger.warning("round %d: %s", round, remark)
    save_policy(policy, layout.policy(round), policy.version, round, start.write_head)
    write_text(layout.steps(round), to_csv(result.rows))
    write_json(layout.metrics("update", round), result.metrics)
    write_json(layout.speed(f"update@{round}"), {"tokens_per_second": result.tokens_per_second})
    checkpoint.remove()
    live.remove()


def _checkpoint(layout: Layout, params: Params, round: int) -> Checkpoint:
    """The checkpoint of an update with these inputs. Threads, card and libraries are inputs: they move last digits."""
    import torch
    import transformers

    sources = layout.sources / "update.json"  # with the digest of a user's environment
    recorded = [layout.trajectories(round), layout.rewards(round), layout.validation(round), layout.selection(round)]
    reads = [sources, layout.policy(0), layout.policy(round - 1), *recorded]
    device = device_name(policy_device(layout.policy(round - 1)))
    machine = (torch.__version__, transformers.__version__, torch.get_num_threads(), device)
    return Checkpoint(layout.journals("update", round) / f"{fingerprint(reads, params, round, *machine)}.pt")
