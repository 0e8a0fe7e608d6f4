"""How often the stages of a round parse its large files, counted where a line becomes a record."""

import contextlib
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flows.reports.influence_extremes import influence_extremes
from flows.stages.dvc_yaml import ROUND
from flows.stages.run import run
from flows.stages.sources import write as write_sources
from tasks import artifacts
from tasks.layout import Layout
from tests.support.params_file import override
from tests.support.real_project import make


@contextmanager
def counted_lines() -> Iterator[Counter[Path]]:
    """Path → the lines of it that become records in the block."""
    lines, parse = Counter[Path](), artifacts._parse

    def count(path: Path, *rest: Any) -> Any:
        lines[path] += 1
        return parse(path, *rest)

    with patch.object(artifacts, "_parse", count):
        yield lines


def parses_of_a_round(root: Path) -> int:
    """Parses of the workflows and of the trajectories by the stages of one round and by the page of the run.

    The params are the shipped ones in the sizes of `real_project`, 7 problems with 3 samples each. A file of which a
    part is parsed counts as one.
    """
    layout = Layout(make(root))
    override(root / "params.yaml", ["influence.selection=audit"])
    write_sources(root)
    with contextlib.chdir(root), contextlib.redirect_stderr(io.StringIO()), counted_lines() as lines:
        for stage in ROUND:
            run(root, f"{stage}@1")
        influence_extremes(layout, 1)
    large = (layout.workflows(1) / "index.jsonl", layout.trajectories(1))
    return sum(-(-lines[path] // len(path.read_bytes().splitlines())) for path in large)
