"""What `graft tree` draws: the search tree of one problem, as a round left it. Reads only files."""

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tasks.artifacts import read_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.records import Problem, TreeNode
from tasks.search.drawing import grown

if TYPE_CHECKING:
    from rich.tree import Tree


def drawn(layout: Layout, problem_id: str, round: int | None) -> "Tree":
    """The tree of a train problem in a round, by default the last one that was searched.

    Raises GraftError where nothing was searched yet, or that problem was not.
    """
    round = round or last_round(layout)
    path = layout.workflows(round) / "trees.jsonl"
    nodes = [node for node in read_jsonl(path, TreeNode) if node.problem_id == problem_id]
    if not nodes:
        names = (node.problem_id for node in read_jsonl(path, TreeNode))
        raise GraftError(f"{path}: no tree of problem {problem_id!r}{meant(problem_id, names)}")
    asked = [p for p in read_jsonl(layout.problems("train"), Problem) if p.problem_id == problem_id]
    above = [node.node_id for node in nodes]
    if not asked or any(node.parent_id not in above[:place] for place, node in enumerate(nodes[1:], start=1)):
        raise GraftError(f"{path}: no whole tree of a problem as it is now; run graft stage search@{round}")
    seen = [node.model_copy(update={"statement": visible(node.statement)}) for node in nodes]
    problem = asked[0].turned(round)
    return grown(seen, problem.model_copy(update={"question": visible(problem.question)}), round)


def visible(text: str) -> str:
    """Without the signs that would steer a terminal instead of being seen."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text)


def meant(problem_id: str, names: Iterable[str]) -> str:
    """A question about the likeliest of the names that there are, for the end of an error; "" where there is none."""
    distinct = list(dict.fromkeys(names))
    near = [name for name in distinct if name.startswith(problem_id)]
    near = near or difflib.get_close_matches(problem_id, distinct, n=1, cutoff=0.3) or distinct
    return f"; did you mean {near[0]!r}?" if near else ""


def last_round(layout: Layout) -> int:
    """The last one that was searched. Raises GraftError where none was."""
    rounds = layout.root.glob("run/rounds/*/workflows/trees.jsonl")
    numbers = [int(path.parts[-3]) for path in rounds if path.parts[-3].isdigit()]
    if not numbers:
        raise GraftError("no round has been searched yet; run graft retrain, or graft stage search@1")
    return max(numbers)
