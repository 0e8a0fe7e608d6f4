"""Drawing of a search tree: for the terminal, and as SVG for the report."""

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.core.terminal import answer_text
from tasks.programs.operators.builtin import without_context
from tasks.records.problems import Problem
from tasks.records.search import TreeNode

if TYPE_CHECKING:
    from rich.tree import Tree

LINES = 60  # of a picture: what a screen shows
COLUMNS = 120

_UNDRAWABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids or discourages."""


def rich_tree(nodes: Sequence[TreeNode], problem: Problem, round: int) -> "Tree":
    """A rich tree of a problem in the round's rotation; `nodes` in preorder, the root first."""
    from rich.markup import escape
    from rich.tree import Tree

    asked, answer = escape(without_context(problem.question)), escape(answer_text(problem.answer))
    title = f"[bold]{asked}[/] [dim]= {answer}; round {round}[/]"
    root, branches = nodes[0], {nodes[0].node_id: Tree(title)}
    branches[root.node_id].add(f"[dim]{root.visits} completions, mean reward {root.value:.2f}[/]")
    for node in nodes[1:]:  # in preorder: a parent comes before its children
        color = "green" if node.value >= 1 else "yellow" if node.value > 0 else "default"
        numbers = f"×{node.visits}  value {node.value:.2f}  p {node.prior:.2g}"
        label = f"[{color}]{escape(node.statement) or 'end'}[/]  [dim]{numbers}[/]"
        branches[node.node_id] = branches[node.parent_id or root.node_id].add(label)
    return branches[root.node_id]


def tree_svg(nodes: Sequence[TreeNode], problem: Problem, round: int) -> str:
    """The tree as a self-contained, deterministic SVG.

    A large tree is reduced to LINES nodes: those with value above 0 first, then the most visited.
    """
    from rich.console import Console

    first = sorted(range(len(nodes)), key=lambda i: (nodes[i].value == 0, -nodes[i].visits, i))[:LINES]
    tree = rich_tree([nodes[i] for i in sorted(first)], problem, round)  # connected: no node ranks before its parent
    if len(nodes) > LINES:
        tree.add(f"[dim]… and {len(nodes) - LINES} nodes more[/]")
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor")
    console.print(tree, highlight=False)
    drawn = console.export_svg(title=f"graft tree {problem.problem_id} --round {round}", unique_id="tree")
    local = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # rich names fonts on the network
    return _UNDRAWABLE.sub("\ufffd", local)
