"""The files of a round's workflows: `index.jsonl` for the programs, `trees.jsonl` for the search trees, and
`engine.json` where a server sampled them."""

from collections.abc import Iterable
from pathlib import Path

from tasks.artifacts import atomic_file, atomic_folder, line_of, read_json, write_json
from tasks.records import Engine, TreeNode, Workflow

Part = tuple[Iterable[Workflow], Iterable[TreeNode]]
"""The workflows of some problems and the nodes of their trees."""


ENGINE = "engine.json"


def write_workflows(folder: Path, parts: Iterable[Part], engine: Engine | None = None) -> None:
    """Write the parts one by one, so that only one must be in memory. The folder is written atomically.

    `engine`: what sampled the policy, in a file of its own; None: Graft itself, without a file.
    """
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
        if engine:
            write_json(new / ENGINE, engine)


def read_engine(folder: Path) -> Engine | None:
    """What sampled the policy that wrote these workflows; None: Graft itself."""
    return read_json(folder / ENGINE, Engine) if (folder / ENGINE).exists() else None
