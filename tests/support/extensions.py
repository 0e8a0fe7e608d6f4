"""The examples of docs/extend.md, and a project's folder whose modules they are."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.stage_params import REPOSITORY

PAGE = (REPOSITORY / "docs" / "extend.md").read_text(encoding="utf-8")

EXAMPLES: dict[str, str] = dict(re.findall(r"`(\w+)\.py`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
"""Module → its text."""


def examples_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the examples. At the end of the test Python finds neither them nor what else is written there."""
    for name, text in EXAMPLES.items():
        (root / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in (*EXAMPLES, "wrong"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return root
