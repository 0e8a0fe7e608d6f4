"""A workflow's code, read back: whether it is what the search ran. What it holds never raises anything."""

from pathlib import Path

from tasks.programs.contract import workflow_id
from tasks.records import Result, Workflow


def integrity_error(workflow: Workflow) -> str | None:
    """What is wrong with its code: it is not the text that the search ran."""
    if workflow_id(workflow.code) == workflow.workflow_id:
        return None
    length = len(workflow.code.encode("utf-8", "surrogatepass"))
    return f"changed since the search ran it ({length} bytes)"


def workflow_location(workflow: Workflow, index: Path) -> str:
    """Where it stands, for a message about it."""
    return f"{index}: workflow {workflow.workflow_id} of {workflow.problem_id}"


def mark_invalid(workflow: Workflow, fault: str) -> Workflow:
    """The workflow with the fault of its code in place of that and of each result."""
    result = Result(status="failed", error=f"workflow: {fault}")
    results = {"result": result, "sibling_results": [result] * len(workflow.sibling_results)}
    return workflow.model_copy(update={"code": "", **results})
