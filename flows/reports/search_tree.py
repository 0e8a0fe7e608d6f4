"""`graft tree` and `graft workflows`: the search tree of one problem in one round, and the workflows in it."""

import difflib
from pathlib import Path
from typing import TypeVar

from rich.tree import Tree

from tasks.artifacts import stream_jsonl, write_text
from tasks.core.terminal import visible
from tasks.errors import GraftError, one_line
from tasks.layout import Layout
from tasks.records.search import AskedProblem, TreeNode, Workflow
from tasks.search.tree_drawing import rich_tree

Line = TypeVar("Line", TreeNode, Workflow)


def draw_tree(layout: Layout, problem_id: str, round: int | None) -> Tree:
    """The tree of a train problem in a round, by default the last one searched.

    Raises GraftError if no round was searched yet, or not this problem.
    """
    round = round or _last_round(layout)
    path = layout.workflows(round) / "trees.jsonl"
    nodes = _lines_of(path, TreeNode, problem_id, "tree")
    problems = stream_jsonl(layout.workflows(round) / "problems.jsonl", AskedProblem)
    problem = next((asked.problem for asked in problems if asked.problem_id == problem_id), None)
    above = [node.node_id for node in nodes]
    if problem is None or any(node.parent_id not in above[:place] for place, node in enumerate(nodes[1:], start=1)):
        raise GraftError(f"{path}: no complete tree of this problem; run graft stage search@{round}")
    shown = [node.model_copy(update={"statement": visible(node.statement)}) for node in nodes]
    return rich_tree(shown, problem.model_copy(update={"question": visible(problem.question)}), round)


def list_workflows(layout: Layout, problem_id: str, round: int | None) -> str:
    """The workflows, ordered by value and prior, each below a comment with its numbers.

    Raises GraftError if no round was searched yet, or not this problem.
    """
    round = round or _last_round(layout)
    index = layout.workflows(round) / "index.jsonl"
    workflows = _lines_of(index, Workflow, problem_id, "workflows")
    return "\n".join(_text(workflow) for workflow in sorted(workflows, key=_rank))


def write_workflow_files(layout: Layout, problem_id: str | None, round: int | None, folder: Path) -> int:
    """Write a file `PROBLEM_ID-RANK.py` of each distinct workflow, the best of a problem first; returns their number.

    `problem_id` None: of all problems; `round` None: of all rounds, a workflow of several as in the round of its
    highest value. Raises GraftError if the folder has something in it, or if there are no such workflows.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GraftError(f"{folder}: is there and not an empty folder; name another one")
    rounds = [round] if round else sorted(_searched_rounds(layout))
    best: dict[str, dict[str, Workflow]] = {}
    for number in rounds or [_last_round(layout)]:
        index = layout.workflows(number) / "index.jsonl"
        for workflow in (
            _lines_of(index, Workflow, problem_id, "workflows") if problem_id else stream_jsonl(index, Workflow)
        ):
            of_problem = best.setdefault(workflow.problem_id, {})
            of_problem[workflow.workflow_id] = min(of_problem.get(workflow.workflow_id, workflow), workflow, key=_rank)
    for name, workflows in best.items():
        digits = len(str(len(workflows)))
        for rank, workflow in enumerate(sorted(workflows.values(), key=_rank), start=1):
            write_text(folder / f"{name}-{rank:0{digits}}.py", _text(workflow), durable=False)
    return sum(map(len, best.values()))


def _rank(workflow: Workflow) -> tuple[float, float, str]:
    """The highest value first, then the highest probability."""
    return -workflow.value, -workflow.prior, workflow.workflow_id


def _lines_of(path: Path, record: type[Line], problem_id: str, what: str) -> list[Line]:
    """The lines of one problem. If there are none, the GraftError suggests a similar problem that has some."""
    lines = [line for line in stream_jsonl(path, record) if line.problem_id == problem_id]
    if not lines:
        names = list(dict.fromkeys(line.problem_id for line in stream_jsonl(path, record)))
        near = [name for name in names if name.startswith(problem_id)]
        near = near or difflib.get_close_matches(problem_id, names, n=1, cutoff=0.3) or names
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise GraftError(f"{path}: no {what} of problem {problem_id!r}{meant}")
    return lines


def _last_round(layout: Layout) -> int:
    """The last round that was searched. Raises GraftError if there is none."""
    numbers = _searched_rounds(layout)
    if not numbers:
        raise GraftError("no round has been searched yet; run graft retrain, or graft stage search@1")
    return max(numbers)


def _searched_rounds(layout: Layout) -> list[int]:
    rounds = layout.root.glob("run/rounds/*/workflows/trees.jsonl")
    return [int(path.parts[-3]) for path in rounds if path.parts[-3].isdigit()]


def _text(workflow: Workflow) -> str:
    numbers = f"value {workflow.value:.2f}  ×{workflow.visits}  p {workflow.prior:.2g}"
    error = f"  {one_line(workflow.result.error)}" if workflow.result.error else ""
    heading = f"# {workflow.workflow_id}  {numbers}  {workflow.proposer}{error}"
    return f"{visible(heading)}\n{visible(workflow.code).rstrip()}\n"
