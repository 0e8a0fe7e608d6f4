"""The files of a round's workflows: `index.jsonl` for the programs, `trees.jsonl` for the search trees."""

from collections.abc import Iterable
from pathlib import Path

from tasks.artifacts import atomic_file, atomic_folder, line_of
from tasks.records import TreeNode, Workflow

Part = tuple[Iterable[Workflow], Iterable[TreeNode]]
"""The workflows of some problems and the nodes of their trees."""


def write_workflows(folder: Path, parts: Iterable[Part]) -> None:
    """Write the parts one by one, so that only one must be in memory. The folder is written atomically."""
    with (
        atomic_folder(folder) as new,
        atomic_file(new / "index.jsonl") as index,
        atomic_file(new / "trees.jsonl") as trees,
    ):
        for found, nodes in parts:
            for workflow in found:
                index.write(line_of(workflow))
            for node in nodes:
                trees.write(line_of(node))
