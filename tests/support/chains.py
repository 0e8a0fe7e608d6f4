"""Runs of the real chain, small."""

from pathlib import Path

from tasks.layout import Layout
from tests.support.workspace import graft


def retrained(root: Path, *assignments: str, preset: str | None = None, warns: bool = False) -> Layout:
    """The project after `graft retrain`, which has nothing to say on stderr, unless it may warn."""
    options = ["--preset", preset] if preset else []
    ended = graft(root, "retrain", *options, *(part for own in assignments for part in ("-S", own)))
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    assert warns or ended.stderr == ""
    return Layout(root)
