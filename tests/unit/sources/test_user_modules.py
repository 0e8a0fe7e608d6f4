"""Laws of the user's own modules: found without running them, known by all of the project that they compute with."""

import sys
from pathlib import Path

import pytest

from tasks.errors import GraftError
from tasks.sources.user_modules import (
    check_arguments,
    check_function_exists,
    digest_modules,
    sources_of,
)

RAISES = "raise RuntimeError('this module must not be run')\n"


def project(root: Path, files: dict[str, str] | None = None, **more: str) -> Path:
    """A folder with {"own/deep": source} as own/deep.py; plain names as keywords."""
    for name, text in {**(files or {}), **more}.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(root: Path, module: str) -> list[str]:
    found = sources_of(root, [module])
    assert all(file.is_relative_to(root) for _, file in found)
    return [name for name, _ in found]


def test_a_module_counts_with_all_that_it_imports_of_the_project(tmp_path: Path) -> None:
    deep = {"deep/__init__": "", "deep/low": "from . import beside\nfrom .beside import f\n", "deep/beside": ""}
    root = project(
        tmp_path,
        {**deep, "deep/unused": ""},
        manners="import json, words\nfrom deep.low import f\ndef polite(p, t, r):\n    import late\n" + RAISES,
        words="import manners, torch\n",
        late="",
        unused="",
    )
    assert names(root, "manners") == ["deep", "deep.beside", "deep.low", "late", "manners", "words"]
    assert names(root, "deep.low") == ["deep", "deep.beside", "deep.low"]


@pytest.mark.parametrize("name", ["manners", "words", "own/deep", "own/__init__"])
def test_the_digest_changes_with_each_of_them_and_with_nothing_else(tmp_path: Path, name: str) -> None:
    own = {"own/__init__": "", "own/deep": "", "own/unused": ""}
    root = project(tmp_path, own, manners="import words, own.deep", words="", other="")
    before = digest_modules(root, ["manners"])
    assert digest_modules(root, ["manners"]) == before
    project(root, {"other": "changed = 1\n", "own/unused": "changed = 1\n"})
    assert digest_modules(root, ["manners"]) == before
    file = root / f"{name}.py"
    file.write_text(file.read_text() + "\nchanged = 1\n")
    assert digest_modules(root, ["manners"]) != before


def test_an_installed_module_counts_with_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = {"installed/__init__": RAISES, "installed/terms": "from installed import more\n" + RAISES}
    project(tmp_path / "site", site)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    root = project(tmp_path / "project", manners="import installed.terms")
    assert [name for name, _ in sources_of(root, ["installed.terms"])] == ["installed.terms"]
    assert names(root, "manners") == ["manners"]
    before = digest_modules(root, ["installed.terms"])
    project(tmp_path / "site", {"installed/terms": "changed = 1"})
    assert digest_modules(root, ["installed.terms"]) != before
    assert "installed" not in sys.modules


@pytest.mark.parametrize(
    "source",
    [
        "def polite(problem, text, results):\n    return 1\n",
        "polite = lambda problem, text, results: 1\n",
        "from words import polite\n",
        "from words import *\n",
        "if True:\n    def polite(): ...\n",
        "def __getattr__(name): ...\n",
    ],
)
def test_every_way_to_define_a_function_is_seen(tmp_path: Path, source: str) -> None:
    check_function_exists(project(tmp_path, manners=source + RAISES), "manners:polite", "rewards.own")


@pytest.mark.parametrize(
    ("term", "source", "message"),
    [
        ("maners:polite", "", r"rewards\.own: no module 'maners' \(of maners:polite\) in .*; put maners\.py there"),
        ("manners.deep:polite", "", r"no module 'manners\.deep'"),
        ("sys:exit", "", r"no module 'sys'"),
        ("manners:polite", "def polit(): ...\n", r"manners\.py defines no 'polite' .*did you mean 'polit'\?"),
        ("manners:polite", "def f():\n    polite = 1\n", r"no 'polite' .*; define it there, or correct the name"),
        ("manners:polite", "class A:\n    polite = 1\n", r"defines no 'polite'"),
        ("manners:polite", "print(polite)\n", r"defines no 'polite'"),
        ("manners:polite", "def polite(\n", r"manners\.py:1: not Python \('\(' was never closed\); fix it"),
        ("manners:polite", "a = '\0'\n", r"manners\.py.*: not Python"),
    ],
)
def test_a_wrong_name_is_reported_in_one_line(tmp_path: Path, term: str, source: str, message: str) -> None:
    with pytest.raises(GraftError, match=message) as error:
        check_function_exists(project(tmp_path, manners=source), term, "rewards.own")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "source",
    [
        "def polite(problem, text, results): ...\n",
        "def polite(problem, *others, strict=False): ...\n",
        "def polite(problem, text, results, weight=1.0): ...\n",
        "def polite(problem): ...\n\ndef polite(a, b, c): ...\n",
        "@cache\ndef polite(anything): ...\n",
        "polite = make_term('polite')\n",
        "from words import polite\n",
        "class polite:\n    def __new__(cls, *given): ...\n",
    ],
)
def test_what_may_take_the_arguments_is_accepted(tmp_path: Path, source: str) -> None:
    check_arguments(
        project(tmp_path, manners=source + RAISES), "manners:polite", "rewards.own", "problem, text, results"
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "def polite(text): ...\n",
            r"manners\.py:1: polite\(text\) is called as polite\(problem, text, results\); give",
        ),
        ("import json\n\ndef polite(a, b, c, d): ...\n", r"manners\.py:3: polite\(a, b, c, d\) is called"),
        ("def polite(a, b, c, *, d): ...\n", r"polite\(a, b, c, \*, d\) is called"),
        ("async def polite(a, b, c): ...\n", r"polite is async, but is called"),
        ("polite = 0.5\n", r"polite is no function, but is called"),
    ],
)
def test_what_cannot_take_the_arguments_is_one_line(tmp_path: Path, source: str, message: str) -> None:
    root = project(tmp_path, manners=source + RAISES)
    with pytest.raises(GraftError, match=f"^rewards\\.own: .*{message}"):
        check_arguments(root, "manners:polite", "rewards.own", "problem, text, results")
