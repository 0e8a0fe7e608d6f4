"""The update stage: rewarded trajectories and their selection → the round's policy."""

import logging

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.core.metrics_files import LiveRows
from tasks.environments.lookup import environment_in
from tasks.errors import GraftError
from tasks.grpo.checkpoint import Checkpoint
from tasks.grpo.compute import compute, reference_scores
from tasks.grpo.groups import selected_groups
from tasks.grpo.kl_weight import read_weight, varies
from tasks.grpo.metrics import to_csv
from tasks.layout import Layout
from tasks.model.distributed.collectives import rank
from tasks.model.distributed.torchrun import run_in_processes
from tasks.model.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.objective.groups import read_groups
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.records import Selected
from tasks.sources.fingerprint import fingerprint
from tasks.statistics.collapse import collapse_remarks

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Update the policy of the round before on this round's selected samples, in `grpo.processes` processes."""
    assert round is not None
    if params.grpo.processes > 1:
        run_in_processes(run_update, layout, params, round)
    else:
        run_update(layout, params, round)


def run_update(layout: Layout, params: Params, round: int) -> None:
    """The update in one process, or in each of several; the first one writes.

    The reference is round 0's policy. It scores first and is then replaced: one model is in memory.
    """
    grpo = params.grpo
    selection = read_jsonl(layout.selection(round), Selected)
    policy = load_policy(layout.policy(0 if grpo.beta > 0 else round - 1))
    splits = list(dict.fromkeys(["train", *(line.split for line in selection)]))
    environment = environment_in(layout.root, params)
    by_split, invalid, _ = read_groups(policy, environment, layout, round, splits, grpo)
    averaging = TokenWeights(grpo.loss, params.policy.max_new_tokens)
    try:
        groups = selected_groups([g for split in splits for g in by_split[split]], selection, averaging)
    except ValueError as error:
        raise GraftError(f"{layout.selection(round)}: {error}; run graft stage select@{round} again") from error
    checkpoint, live = _checkpoint(layout, params, round, policy), LiveRows(layout.live_steps(f"update@{round}"))
    reference = None
    with explain_out_of_memory(grpo.micro_batch_tokens):
        if grpo.beta > 0:
            reference = reference_scores(policy, groups, params)
            policy = load_policy(layout.policy(round - 1), instead_of=policy)
        weight = read_weight(layout.kl_weight(round - 1), grpo)
        result = compute(policy, groups, reference, params, round, checkpoint, live, weight)
    if rank():
        return
    for remark in collapse_remarks(result.metrics):
        logger.warning("round %d: %s", round, remark)
    save_policy(policy, layout.policy(round), parent=policy.version, round=round)
    if varies(grpo):
        write_json(layout.kl_weight(round), result.kl_weight)
    write_text(layout.steps(round), to_csv(result.rows))
    write_json(layout.metrics("update", round), result.metrics | {"unfit_samples": invalid})
    write_json(layout.speed(f"update@{round}"), {"tokens_per_second": result.tokens_per_second})
    checkpoint.remove()
    live.remove()


def _checkpoint(layout: Layout, params: Params, round: int, policy: Policy) -> Checkpoint:
    """The checkpoint of an update with these inputs. Threads and device are inputs too: they change the last digits."""
    import torch

    reads = [layout.policy(0), layout.policy(round - 1), layout.rewarded(round), layout.selection(round)]
    machine = (torch.__version__, torch.get_num_threads(), policy.device.type)
    return Checkpoint(layout.journals("update", round) / f"{fingerprint(reads, params, round, *machine)}.pt")
