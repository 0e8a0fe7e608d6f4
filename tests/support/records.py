"""Records with plausible defaults."""

from typing import Any

from tasks.programs.contract import workflow_id
from tasks.records.evaluation import ProblemOutcome
from tasks.records.problems import Answer, Problem
from tasks.records.programs import Result
from tasks.records.promotion import KeptResult, Promotion
from tasks.records.search import Workflow


def question_of(question: str, answer: Answer = 0, **fields: Any) -> Problem:
    """A problem `p` of a file; any field can be given."""
    return Problem(**{"problem_id": "p", "source": "test", **fields, "question": question, "answer": answer})


def make_workflow(code: str, **fields: Any) -> Workflow:
    """A sampled train workflow of problem `p` that returned 1; any field can be given."""
    defaults: dict[str, Any] = {
        "problem_id": "p",
        "split": "train",
        "workflow_id": workflow_id(code),
        "proposer": "sample",
        "parent_id": None,
        "depth": 1,
        "visits": 1,
        "value": 1.0,
        "prior": 1.0,
        "result": Result(status="ok", value=1),
        "sibling_results": [],
    }
    return Workflow(code=code, **{**defaults, **fields})


def make_outcome(problem_id: str, **fields: Any) -> ProblemOutcome:
    """The outcome of a problem without template and siblings after one wrong sample; any field can be given."""
    counts = {"samples": 1, "correct": 0, "invalid": 0, "timeouts": 0, "distinct": 1}
    unknown = {"template": None, "seen": None, "siblings_passed": None}
    return ProblemOutcome(problem_id=problem_id, **{"greedy": False, **counts, **unknown, **fields})


def make_promotion(**fields: Any) -> Promotion:
    """The decision for version `v` with a score of 0.75 against a first policy with 0.5; any field can be given."""
    named = {"promoted": True, "reason": "promoted: better", "version": "v", "champion_version": None}
    figures = {"pass_at_1": 0.75, "champion_pass_at_1": 0.5, "difference": 0.25, "low": 0.1, "high": 0.4}
    return Promotion(**{**named, **figures, **fields})


def make_kept(**fields: Any) -> KeptResult:
    """A comparison on an earlier test set that may have lost too much; any field can be given."""
    figures = {"value": 0.5, "champion_value": 0.625, "difference": -0.125, "low": -0.2, "high": -0.05}
    return KeptResult(
        **{"name": "a.jsonl (2864c512)", "problems": 40, "lost": True, "worse": True, **figures, **fields}
    )
