"""Stage `coldstart`: workflows for train problems without a policy.

A policy from scratch learns from those of all problems; the prompt of any other base shows a few.
"""

import sys
from functools import partial

from rich.console import Console
from rich.progress import track

from tasks.artifacts import read_jsonl, write_json
from tasks.coldstart.solve_problems import known_solutions, solve_problems
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.workflow_files import write_workflows
from tasks.records import Problem

PROBLEMS_PER_EXAMPLE = 8
"""Problems that are searched for each worked example of a prompt, so that the examples differ."""


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001 (every stage has this signature)
    """Read the train problems, write a workflow for each of them, or of the first ones, that enumeration solves."""
    problems = _searched_problems(layout, params)
    solutions = known_solutions(problems, params.sandbox)
    problems = _with_numbers(problems, params.policy.base, len(solutions))
    progress = partial(
        track,
        description="cold-start search",
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    solved = [*solutions, *(solve_problems(problems, params, progress) if problems else [])]
    write_workflows(layout.coldstart, [([], solved, [])])
    write_json(layout.metrics("coldstart"), {"problems": len(problems) + len(solutions), "solved": len(solved)})


def _searched_problems(layout: Layout, params: Params) -> list[Problem]:
    """The problems that need a workflow; none if the environment has demonstrations of its own."""
    if params.problems.source == "environment":
        return []
    if params.policy.base == "scratch":
        return read_jsonl(layout.problems("train"), Problem)
    if params.policy.prompt.examples and not params.policy.prompt.file:
        return prompt_problems(read_jsonl(layout.problems("train"), Problem), params)
    return []


def _with_numbers(problems: list[Problem], base: str, solutions: int) -> list[Problem]:
    """The problems whose answers are numbers: no other answer is found by enumeration.

    Raises GraftError if there are none, but a policy from scratch needs some.
    """
    with_numbers = [problem for problem in problems if problem.numbers]
    if base == "scratch" and problems and not with_numbers and not solutions:
        raise GraftError(
            f"policy.base: scratch learns from programs that are found for numbers, and from solutions of code, but "
            f"the answers of these problems are of the kind {problems[0].evaluator}; set policy.base to a model"
        )
    return with_numbers


def prompt_problems(problems: list[Problem], params: Params) -> list[Problem]:
    """The first train problems, whose workflows are the worked examples of a prompt; none if these are in a file."""
    prompt = params.policy.prompt
    return problems[: 0 if prompt.file else PROBLEMS_PER_EXAMPLE * prompt.examples]
