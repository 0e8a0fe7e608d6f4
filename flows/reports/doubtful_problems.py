"""Places of the problems that audits suspect: file and line, as their records have ids alone, mostly hashes."""

from collections.abc import Iterable

from tasks.artifacts import stream_jsonl
from tasks.core.terminal import shortened
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.problems.jsonl import problem_places
from tasks.programs.operators.builtin import without_context
from tasks.records.problems import Problem
from tasks.records.selection import RewardAudit

MAX_CHARACTERS = 80
"""Characters of a question."""


def doubtful_problems(layout: Layout, audits: Iterable[RewardAudit]) -> dict[str, str]:
    """File and line of each problem by its id, or the beginning of its question where it is in no file any more."""
    names = {name for audit in audits for name in audit.suspects}
    if not names:
        return {}
    places = _places(layout)
    return {
        problem.problem_id: places.get(problem.problem_id)
        or shortened(without_context(problem.question), MAX_CHARACTERS)
        for problem in stream_jsonl(layout.problems("train"), Problem)
        if problem.problem_id in names
    }


def _places(layout: Layout) -> dict[str, str]:
    try:
        params = load_params(layout.root / "params.yaml")
        return problem_places(layout.root, params) if params.problems.source == "jsonl" else {}
    except GraftError:  # the file was removed or edited since; or the run is a revision, which has its results alone
        return {}
