"""Assignments in a `params.yaml`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.artifacts import read_text, write_text
from tasks.params.file import overridden


def override(path: Path, assignments: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Write `key=value` assignments into the file, as `graft retrain -S` does, and return the changes.

    Raises GraftError, with the file unchanged, if one is not valid.
    """
    text, _, changes = overridden(path, read_text(path), assignments)
    if changes:
        write_text(path, text)
    return changes
