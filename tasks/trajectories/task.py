"""The stage `collect`: workflow files → trajectories that hold the workflows' code."""

from pathlib import Path

from tasks.artifacts import read_json, read_jsonl, read_text, write_json, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params
from tasks.records import Lineage, Problem, Split, Workflow
from tasks.trajectories.collect import collect
from tasks.trajectories.metrics import metrics_of
from tasks.workflows.contract import workflow_id


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Read the round's workflows and the lineage of the policy that wrote them, write `trajectories.jsonl`."""
    assert round is not None
    splits: tuple[Split, ...] = ("train", "validation")
    folder = layout.workflows(round)
    workflows = read_jsonl(folder / "index.jsonl", Workflow)
    trajectories = collect(
        {split: [p.turned(round) for p in read_jsonl(layout.problems(split), Problem)] for split in splits},
        workflows,
        {workflow.path: _code(folder, workflow, round) for workflow in workflows},
        read_json(layout.policy(round - 1) / "lineage.json", Lineage),
        params.policy.base,
        params.grpo.group_size,
        params.rewards.agreement,
        params.seed,
    )
    if not trajectories:
        raise GraftError(f"{folder / 'index.jsonl'}: no completions in it; run graft stage search@{round} again")
    write_jsonl(layout.trajectories(round), trajectories)
    write_json(layout.metrics("collect", round), metrics_of(trajectories, params.grpo.group_size))


def _code(folder: Path, workflow: Workflow, round: int) -> str:
    """A workflow's text. Raises GraftError where the file is missing or is not what the search ran."""
    code = read_text(folder / workflow.path)
    if workflow_id(code) != workflow.workflow_id:
        raise GraftError(
            f"{folder / workflow.path}: changed since the search ran it; run graft stage search@{round} again"
        )
    return code
