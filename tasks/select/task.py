"""Stage `select`: trajectories with their rewards, and validation's, → which samples the update may see."""

import shutil
from collections.abc import Sequence
from functools import partial

from tasks.artifacts import write_json, write_jsonl
from tasks.layout import Layout
from tasks.model.distributed.collectives import rank
from tasks.model.distributed.processes import run_in_processes
from tasks.objective.groups import read_trajectories
from tasks.params.params import Params
from tasks.round_start import StoredModels
from tasks.select.select_samples import HeldOut, hold_out, processes_of, select_samples
from tasks.select.validation_rollout import sample_validation, write_validation
from tasks.sources.user_code import find_modules_in
from tasks.trajectories import RewardedTrajectory


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Sample validation, audit the rewards by it, then select from this round's training samples.

    The processes, where there are several, get the same completions.
    """
    assert round is not None
    try:
        train = list(read_trajectories(layout, round, ["train"]))
        held_out = hold_out(train, partial(sample_validation, layout, params, round), params)
        write_validation(layout, round, held_out.rewarded)
        if held_out.audit:
            write_json(layout.audit(round), held_out.audit)
        run_in_processes(partial(write_selection, train, held_out), processes_of(params), layout, params, round)
    except BaseException:
        shutil.rmtree(layout.validation(round), ignore_errors=True)  # a stage that fails leaves none of its outputs
        raise


def write_selection(
    train: Sequence[RewardedTrajectory], held_out: HeldOut, layout: Layout, params: Params, round: int
) -> None:
    """Select at the policy of the round before; the first of several processes writes."""
    find_modules_in(layout.root, params.influence.selection, params.update.loss, params.update.advantages)
    selection = select_samples(StoredModels(layout, params, round), train, held_out, params, round)
    if not rank():
        write_jsonl(layout.selection(round), selection.lines)
        write_json(layout.metrics("select", round), selection.metrics)
