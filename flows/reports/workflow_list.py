"""`graft workflows`: the workflows that a round's search found for one problem."""

from flows.reports.search_tree import last_round, lines_of
from tasks.core.terminal import visible
from tasks.errors import one_line
from tasks.layout import Layout
from tasks.records import Workflow


def list_workflows(layout: Layout, problem_id: str, round: int | None) -> str:
    """The workflows, ordered by value and prior, each below a comment with its numbers.

    Raises GraftError if no round was searched yet, or not this problem.
    """
    round = round or last_round(layout)
    index = layout.workflows(round) / "index.jsonl"
    workflows = lines_of(index, Workflow, problem_id, "workflows")
    best = sorted(workflows, key=lambda workflow: (-workflow.value, -workflow.prior, workflow.workflow_id))
    return "\n".join(_text(workflow) for workflow in best)


def _text(workflow: Workflow) -> str:
    numbers = f"value {workflow.value:.2f}  ×{workflow.visits}  p {workflow.prior:.2g}"
    error = f"  {one_line(workflow.result.error)}" if workflow.result.error else ""
    heading = f"# {workflow.workflow_id}  {numbers}  {workflow.proposer}{error}"
    return f"{visible(heading)}\n{visible(workflow.code).rstrip()}\n"
