"""The sizes and the names of modules that CONTRIBUTING promises."""

import ast
import re
import tokenize
from pathlib import Path

import pytest

from benchmarks.house import PRODUCT, ROOT, modules

MODULES = modules(*PRODUCT)
FOLDERS = sorted({file.parent for file in modules(*PRODUCT, "benchmarks")})
HEADLINES = ("What ", "Whether ", "Who ", "How ", "Which ", "Where ", "When ")
STOP_LIST = {
    *(
        "told",
        "heard",
        "hearing",
        "known",
        "seen",
        "asked",
        "tried",
        "kept",
        "found",
        "made",
        "written",
        "left",
        "lost",
    ),
    *("served", "posed", "settled", "named", "running", "asking", "rewarding", "measuring", "fitting", "reading"),
    *("untouched", "unread", "distrust", "beside", "whole", "lean", "still", "lone", "silent", "news", "part", "own"),
    *("utils", "util", "helpers", "helper", "manager", "misc", "common", "base", "numbers"),
}
"""Words that no module is named by: participles, adverbs and metaphors that said nothing to a newcomer."""


PROSE = re.compile(r"\b(anew|whoever|meanwhile|heard|told|tells|mend|mends|judges|beside|by lot|so many|whom)\b")
"""Idioms that the documentation of torch, transformers, DVC and Prefect does not use."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_a_module_is_named_by_what_it_holds_and_begins_with_a_statement(file: Path) -> None:
    assert file.stem not in STOP_LIST
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert docstring, "no docstring"
    assert not docstring.startswith(HEADLINES), docstring.splitlines()[0]


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_prose_is_plain_english(file: Path) -> None:
    with file.open("rb") as source:
        tokens = list(tokenize.tokenize(source.readline))
    prose = [t for t in tokens if t.type == tokenize.COMMENT or (t.type == tokenize.STRING and '"""' in t.string)]
    assert [(t.start[0], found) for t in prose for found in PROSE.findall(t.string)] == []


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_no_product_file_is_longer_than_400_lines(file: Path) -> None:
    count = len(file.read_text(encoding="utf-8").splitlines())
    assert count <= (100 if file.stem == "task" or file.stem.endswith("_task") else 400)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_no_folder_has_more_than_20_modules(folder: Path) -> None:
    assert len([file for file in folder.glob("*.py") if file.name != "__init__.py"]) <= 20


@pytest.mark.parametrize("folder", PRODUCT)
def test_init_files_are_empty(folder: str) -> None:
    """Sources of a stage are read from the imports of modules; what `__init__.py` did would not be counted."""
    assert [name(p) for p in (ROOT / folder).rglob("__init__.py") if p.read_text().strip()] == []
