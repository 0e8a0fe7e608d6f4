"""Integrity of stored workflows: is the code in the file the code that the search ran?"""

from pathlib import Path

from tasks.programs.contract import workflow_id
from tasks.records import Result, Workflow


def integrity_error(workflow: Workflow) -> str | None:
    """Why the code is not what the search ran; None if its hash is the recorded id."""
    if workflow_id(workflow.code) == workflow.workflow_id:
        return None
    length = len(workflow.code.encode("utf-8", "surrogatepass"))
    return f"changed since the search ran it ({length} bytes)"


def workflow_location(workflow: Workflow, index: Path) -> str:
    """File, workflow and problem, for a message."""
    return f"{index}: workflow {workflow.workflow_id} of {workflow.problem_id}"


def mark_invalid(workflow: Workflow, error: str) -> Workflow:
    """The workflow without its code, every result replaced by a `failed` one with the error."""
    result = Result(status="failed", error=f"workflow: {error}")
    results = {"result": result, "sibling_results": [result] * len(workflow.sibling_results)}
    return workflow.model_copy(update={"code": "", **results})
