"""The stage `collect`: workflow files → trajectories that hold the workflows' code."""

import logging

from tasks.artifacts import read_json, read_jsonl, write_json, write_jsonl
from tasks.environments.environment import posed
from tasks.environments.named import environment_in
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params
from tasks.records import Lineage, Problem, Split, Workflow
from tasks.trajectories.collect import collect
from tasks.trajectories.metrics import metrics_of
from tasks.workflows.stored import faulty, read_code

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Read the round's workflows and the lineage of the policy that wrote them, write `trajectories.jsonl`.

    A workflow whose file is missing or damaged stays in its group, with an error that says so.
    """
    assert round is not None
    environment = environment_in(layout.root, params)
    splits: tuple[Split, ...] = ("train", "validation")
    folder = layout.workflows(round)
    workflows = read_jsonl(folder / "index.jsonl", Workflow)
    codes: dict[str, str] = {}
    for place, workflow in enumerate(workflows):
        codes[workflow.path], fault = read_code(folder, workflow)
        if fault is not None:
            logger.warning("%s: %s; run graft stage search@%d again", folder / workflow.path, fault, round)
            workflows[place] = faulty(workflow, fault)
    problems: dict[Split, list[Problem]] = {
        split: [posed(environment, p.turned(round)) for p in read_jsonl(layout.problems(split), Problem)]
        for split in splits
    }
    trajectories = collect(
        environment,
        problems,
        workflows,
        codes,
        read_json(layout.policy(round - 1) / "lineage.json", Lineage),
        params.grpo.group_size,
        params.rewards.agreement,
        params.seed,
        served=params.operators.backend != "none",
    )
    if not trajectories:
        raise GraftError(f"{folder / 'index.jsonl'}: no completions in it; run graft stage search@{round} again")
    write_jsonl(layout.trajectories(round), trajectories)
    write_json(layout.metrics("collect", round), metrics_of(trajectories, params.grpo.group_size))
