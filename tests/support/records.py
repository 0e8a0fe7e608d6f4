"""Records with plausible defaults."""

from typing import Any

from tasks.programs.contract import workflow_id
from tasks.records import Result, Workflow


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
