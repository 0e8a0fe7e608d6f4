"""Stage `coldstart`: programs for train problems that an environment finds without a policy.

A policy from scratch and a warm start learn from those of all problems; the prompt of any other base shows a few.
"""

from tasks.artifacts import read_jsonl, write_json
from tasks.environments.lookup import environment_in
from tasks.environments.prompts import SCRATCH
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.workflow_files import write_workflows
from tasks.records.problems import Problem
from tasks.warm_start import has_warm_start

PROBLEMS_PER_EXAMPLE = 8
"""Problems that are searched for each worked example of a prompt, so that the examples differ."""


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001 (every stage has this signature)
    """Read the train problems, write the programs that solve them, or the first ones."""
    problems = _searched_problems(layout, params)
    solutions = environment_in(layout.root, params).solutions(problems, params.sandbox)
    solved = [workflow for workflow in solutions.values() if workflow is not None]
    write_workflows(layout.coldstart, [([], solved, [])])
    write_json(layout.metrics("coldstart"), {"problems": len(solutions), "solved": len(solved)})


def _searched_problems(layout: Layout, params: Params) -> list[Problem]:
    """All train problems, or the first ones, whose programs are the worked examples of a prompt; none for a file's."""
    prompt, learns = params.policy.prompt, params.policy.base == SCRATCH or has_warm_start(layout.root, params)
    if learns and params.bootstrap.demonstrations is None:
        return read_jsonl(layout.problems("train"), Problem)
    if params.policy.base != SCRATCH and prompt.examples and not prompt.file:
        return read_jsonl(layout.problems("train"), Problem)[: PROBLEMS_PER_EXAMPLE * prompt.examples]
    return []
