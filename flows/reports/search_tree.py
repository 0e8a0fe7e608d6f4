"""What `graft tree` draws: the search tree of one problem, as a round left it. Reads only files."""

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tasks.artifacts import read_jsonl, stream_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.records import Problem, TreeNode, Workflow
from tasks.search.tree_drawing import rich_tree

if TYPE_CHECKING:
    from rich.tree import Tree


Found = TypeVar("Found", TreeNode, Workflow)


def draw_tree(layout: Layout, problem_id: str, round: int | None) -> "Tree":
    """The tree of a train problem in a round, by default the last one that was searched.

    Raises GraftError where nothing was searched yet, or that problem was not.
    """
    round = round or last_round(layout)
    path = layout.workflows(round) / "trees.jsonl"
    nodes = lines_of(path, TreeNode, problem_id, "tree")
    asked = [p for p in read_jsonl(layout.problems("train"), Problem) if p.problem_id == problem_id]
    above = [node.node_id for node in nodes]
    if not asked or any(node.parent_id not in above[:place] for place, node in enumerate(nodes[1:], start=1)):
        raise GraftError(f"{path}: no whole tree of a problem as it is now; run graft stage search@{round}")
    seen = [node.model_copy(update={"statement": visible(node.statement)}) for node in nodes]
    problem = asked[0].rotated(round)
    return rich_tree(seen, problem.model_copy(update={"question": visible(problem.question)}), round)


def visible(text: str) -> str:
    """Without the signs that would steer a terminal instead of being seen."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text)


def lines_of(path: Path, record: type[Found], problem_id: str, what: str) -> list[Found]:
    """The lines of one problem. Where there is none, raises GraftError with the likeliest problem that has some."""
    found = [line for line in stream_jsonl(path, record) if line.problem_id == problem_id]
    if not found:
        names = list(dict.fromkeys(line.problem_id for line in stream_jsonl(path, record)))
        near = [name for name in names if name.startswith(problem_id)]
        near = near or difflib.get_close_matches(problem_id, names, n=1, cutoff=0.3) or names
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise GraftError(f"{path}: no {what} of problem {problem_id!r}{meant}")
    return found


def last_round(layout: Layout) -> int:
    """The last one that was searched. Raises GraftError where none was."""
    rounds = layout.root.glob("run/rounds/*/workflows/trees.jsonl")
    numbers = [int(path.parts[-3]) for path in rounds if path.parts[-3].isdigit()]
    if not numbers:
        raise GraftError("no round has been searched yet; run graft retrain, or graft stage search@1")
    return max(numbers)
