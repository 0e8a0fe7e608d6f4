"""The train problems that cold-start search solved, with their code."""

import logging
from collections.abc import Sequence
from pathlib import Path

from tasks.artifacts import read_jsonl
from tasks.environments.protocol import Solved
from tasks.programs.workflow_files import integrity_error, workflow_location
from tasks.records import Problem, Workflow

logger = logging.getLogger(__name__)


def select_solutions(problems: Sequence[Problem], workflows: Path) -> list[Solved]:
    """Each solved problem with its shortest code. Workflows whose code is not what the search ran are skipped."""
    by_problem: dict[str, list[Workflow]] = {problem.problem_id: [] for problem in problems}
    index = workflows / "index.jsonl"
    for workflow in read_jsonl(index, Workflow):
        by_problem.setdefault(workflow.problem_id, []).append(workflow)
    pairs = []
    for problem in problems:
        for workflow in sorted(by_problem[problem.problem_id], key=lambda w: (w.depth, -w.prior)):
            error = integrity_error(workflow)
            if error is None:
                pairs.append((problem, workflow.code))
                break
            logger.warning("%s: %s; run graft stage coldstart again", workflow_location(workflow, index), error)
    return pairs
