"""Stage `coldstart`: workflows for the train problems without a policy (only for `policy.base: scratch`)."""

import sys
from functools import partial

from rich.console import Console
from rich.progress import track

from tasks.artifacts import read_jsonl, write_json
from tasks.coldstart.solve_problems import solve_problems
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.workflow_files import write_workflows
from tasks.records import Problem


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001 (every stage has this signature)
    """Read the train problems, write a workflow for each that enumeration solves."""
    problems = read_jsonl(layout.problems("train"), Problem) if params.policy.base == "scratch" else []
    progress = partial(
        track,
        description="cold-start search",
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    solved = solve_problems(problems, params, progress) if problems else []
    write_workflows(layout.coldstart, [(solved, [])])
    write_json(layout.metrics("coldstart"), {"problems": len(problems), "solved": len(solved)})
