"""The train problems that cold-start search solved, with their code."""

import logging
from collections.abc import Sequence
from pathlib import Path

from tasks.artifacts import read_jsonl
from tasks.environments.protocol import Solved
from tasks.programs.workflow_files import integrity_error, workflow_location
from tasks.records.problems import Problem
from tasks.records.search import Workflow

logger = logging.getLogger(__name__)


def select_solutions(problems: Sequence[Problem], workflows: Path) -> list[Solved]:
    """Each solved problem with its code. Workflows whose code is not what the search ran are skipped."""
    index = workflows / "index.jsonl"
    codes: dict[str, str] = {}
    for workflow in read_jsonl(index, Workflow):
        if error := integrity_error(workflow):
            logger.warning("%s: %s; run graft stage coldstart again", workflow_location(workflow, index), error)
        else:
            codes[workflow.problem_id] = workflow.code
    return [(problem, codes[problem.problem_id]) for problem in problems if problem.problem_id in codes]
