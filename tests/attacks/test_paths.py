"""Law: a name that data brings leads nowhere but where that data lies, and ends in nothing worse than a line."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.reports.run_lookup import find_run
from flows.reports.search_tree import visible
from flows.stages.dvc_yaml import round_of
from tasks.artifacts import read_jsonl, read_text, write_text
from tasks.errors import GraftError, one_line
from tasks.problems.jsonl import Reader
from tasks.records.problems import Problem
from tasks.records.search import Workflow
from tests.support.params_file import override
from tests.support.records import make_workflow
from tests.support.stage_params import REPOSITORY

CODE = "def solve(problem):\n    return 1\n"

NAMES = [
    "../x", "../../../etc/passwd", "/etc/passwd", "..", ".", "", "a/../../x", "a//b", "a/./b", "a\x00b", "a\nb", "a\rb",
    "~/x", "a" * 300, "\u2025/x", "\uff0e\uff0e/x", "..\u2215x", "a\u202eb", "\ud800", "-rf", ".hidden", "a\\..\\b",
    "a/", "con\x1b[2J", " a", "a ", "ä",
]  # fmt: skip
"""What nobody names a problem."""


def workflow(problem_id: str) -> str:
    made = make_workflow(CODE, depth=0)
    return made.model_copy(update={"problem_id": problem_id}).model_dump_json()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "a" * 300] + ["a/b", "a" * 101])
def test_a_problem_has_a_name_that_is_no_path(name: str, tmp_path: Path) -> None:
    fields = f'"question": "1?", "answer": 2, "problem_id": {json.dumps(name)}'
    with pytest.raises(GraftError, match="cannot name a file"):
        Reader().read("mine.jsonl", "{" + fields + "}", "mine")
    for record, text in ((Problem, f'{{{fields}, "source": "x"}}'), (Workflow, "")):
        line = text or workflow(problem_id="NAME").replace('"NAME"', json.dumps(name))
        write_text(tmp_path / "file.jsonl", line + "\n")
        with pytest.raises(GraftError, match=r"file\.jsonl:1: "):
            read_jsonl(tmp_path / "file.jsonl", record)


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "long", "NUL"])
def test_a_file_that_never_ends_or_cannot_be_is_one_line(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "loop":
        file.symlink_to(file)
    file = {"device": Path("/dev/zero"), "long": tmp_path / ("a" * 300), "NUL": tmp_path / "a\0b"}.get(kind, file)
    for read in (lambda: read_text(file), lambda: read_jsonl(file, Problem)):
        with pytest.raises(GraftError) as caught:
            read()
        assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("key", "value"),
    [("policy.base", "a\\0b"), ("operators.model", "a\\0b")]
    + [("problems.path", value) for value in ("a\\0b", "a\\nb", "a\\x1b[2J", "a\\u202eb")],
)
def test_a_param_holds_signs_that_a_name_can_have(key: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text((REPOSITORY / "params.yaml").read_text())
    with pytest.raises(GraftError, match=rf"{key.split('.')[0]}: {key.split('.')[1]} contains the character"):
        override(file, [f'{key}="{value}"'])
    assert file.read_text() == (REPOSITORY / "params.yaml").read_text()


@pytest.mark.parametrize("name", [*NAMES[5:], "0" * 32, "'", "x' or name like '%", "HEAD; touch ran", "--output=ran"])
def test_what_is_no_run_is_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # "" is the present folder
    with pytest.raises(GraftError) as caught:
        find_run(name, tmp_path)
    assert str(caught.value).isprintable()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "address", ["search@../../x", "search@-1", "search@1e3", "search@\u0661", "search@" + "9" * 99]
)
def test_a_stage_is_of_a_round(address: str) -> None:
    with pytest.raises(GraftError, match="is no round; write its number"):
        round_of(address)


def test_what_is_told_can_neither_break_a_line_nor_steer_a_terminal() -> None:
    assert one_line("a\nb\tc\x1b[2J\u202e\x00\ud800") == "a b c\\x1b[2J\\u202e\\x00\\ud800"
    assert visible("a\x1b]0;title\x07\nb") == "a\ufffd]0;title\ufffd\nb"
    assert len(str(GraftError("x" * 10**6 + "; mend it"))) < 2100
    assert str(GraftError("x" * 10**6 + "; mend it")).endswith("; mend it")


def test_no_command_follows_a_name_out_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    for command in (["tree", "../../etc/passwd"], ["stage", "../../x"], ["compare", "a\0b", "c"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code != 0
        assert isinstance(done.exception, GraftError | SystemExit), done.exception
    assert not list(tmp_path.iterdir())
