"""`problems.path` may be a folder of files that grows: by copying, by `dvc add`, by `dvc import-url`."""

import gzip
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.reports.problem_file import describe_files
from tasks.artifacts import read_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.problems.files import problem_files, problem_text
from tasks.problems.jsonl import LONGEST, Reader, longest_questions, read_files
from tasks.problems.splits import split_problems
from tasks.problems.task import run
from tasks.records.problems import Problem
from tests.support.stage_params import stage_params


def params_of(path: str, train: int = 4, validation: int = 3, test: int = 3) -> Params:
    sizes = {"train": train, "validation": validation, "test": test, "dev": 0}
    return stage_params("problems", problems={"source": "jsonl", "path": path, **sizes})


def lines(name: str, count: int) -> str:
    return "".join(json.dumps({"question": f"{name} {n}?", "answer": n}) + "\n" for n in range(count))


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_files_of_a_folder_come_sorted_and_hidden_ones_do_not(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "more/c.jsonl", ".hidden.jsonl", ".put/away.jsonl", "notes.txt"):
        put(tmp_path / "data" / name, "")
    assert list(problem_files(tmp_path, "data")) == ["data/a.jsonl", "data/b.jsonl", "data/more/c.jsonl"]
    assert list(problem_files(tmp_path, "data/b.jsonl")) == ["data/b.jsonl"]
    assert list(problem_files(tmp_path / "data", "../data/more")) == ["../data/more/c.jsonl"]


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


@pytest.mark.parametrize(("make", "name", "message"), [
    (os.mkfifo, "a.jsonl", "data/a.jsonl: a pipe, a socket or a device, not a file; remove it"),
    (os.mkfifo, "below/pipe", "data/below/pipe: a pipe, a socket or a device, not a file; remove it"),
    (bind_socket, ".s", "data/.s: a pipe, a socket or a device, not a file; remove it"),
    (lambda path: path.symlink_to("/dev/zero"), "z.jsonl", "data/z.jsonl: a pipe, a socket or a device, not a file"),
    (lambda path: path.symlink_to("nowhere"), "l.jsonl", "data/l.jsonl: a link to nothing, not a file; remove it"),
    (lambda path: path.symlink_to("me@host.1:2"), ".#b.jsonl", "data/.#b.jsonl: a link to nothing, not a file"),
    (lambda path: path.symlink_to("loop.jsonl"), "loop.jsonl", "data/loop.jsonl: a link to nothing, not a file"),
    (Path.touch, os.fsdecode(b"\xff.txt"), r"data/\xff.txt: its name is not UTF-8; rename it"),
    (Path.mkdir, os.fsdecode(b"below/\xe9"), r"data/below/\xe9: its name is not UTF-8; rename it"),
])  # fmt: skip
def test_what_dvc_cannot_digest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], name: str, message: str
) -> None:
    put(tmp_path / "data" / "b.jsonl", lines("b", 2))
    (tmp_path / "data" / "below").mkdir()
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 bytes
    make(Path("data", name))
    for read in (lambda: problem_files(tmp_path, "data"), lambda: describe_files("data", "format", 0)):
        with pytest.raises(GraftError, match="^" + re.escape(message)):
            read()


def test_a_folder_is_no_problem_file_whatever_its_name(tmp_path: Path) -> None:
    put(tmp_path / "data" / "train.jsonl" / "part-0.jsonl", "")
    (tmp_path / "data" / "link.jsonl").symlink_to("train.jsonl")
    assert list(problem_files(tmp_path, "data")) == ["data/train.jsonl/part-0.jsonl"]


def test_one_file_cut_into_several_gives_the_same_problems(tmp_path: Path) -> None:
    text, found = lines("sum", 12), []
    for name, parts in (("one", [text]), ("three", ["".join(text.splitlines(True)[n::3]) for n in range(3)])):
        for number, part in enumerate(parts):
            put(tmp_path / name / "data" / f"{number}.jsonl", part)
        run(Layout(tmp_path / name), params_of("data"))
        train = read_jsonl(Layout(tmp_path / name).problems("train"), Problem)
        found.append([each.model_copy(update={"source": ""}) for each in train])
    assert found[0] == found[1]


def test_duplicates_across_files_name_both_files_and_lines(tmp_path: Path) -> None:
    two = '{"question": "2?", "answer": 2}\n{"question": "3?", "answer": 3, "id": "one"}\n'
    put(tmp_path / "data" / "a.jsonl", '\n{"question": "1?", "answer": 1, "id": "one"}\n')
    for text, message in (
        (two, ":2: data/a.jsonl:2 has the problem_id 'one' too; give one of the two another id"),
        ('{"question": "1?", "answer": 1}\n', ":1: data/a.jsonl:2 asks the same; remove one of the two"),
    ):
        put(tmp_path / "data" / "b.jsonl", text)
        with pytest.raises(GraftError, match=f"^data/b.jsonl{message}$"):
            run(Layout(tmp_path), params_of("data", 1, 1, 1))
    assert not (tmp_path / "run").exists()


def test_an_empty_folder_and_a_missing_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(GraftError, match=r"^problems\.path: no \*\.jsonl in the folder data; put one there$"):
        problem_files(tmp_path, "data")
    with pytest.raises(GraftError, match=r"^problems\.path: no file none; name a jsonl file, .* or a folder$"):
        problem_files(tmp_path, "none")


def test_a_file_whose_data_dvc_has_not_pulled_is_named(tmp_path: Path) -> None:
    put(tmp_path / "data" / "b.jsonl.dvc", "outs:\n- path: b.jsonl\n")
    with pytest.raises(GraftError) as error:
        run(Layout(tmp_path), params_of("data"))
    assert str(error.value) == "data/b.jsonl.dvc: its data is not here; run: dvc pull data/b.jsonl.dvc"


@given(old=st.integers(10, 40), new=st.integers(0, 40), seed=st.integers(0, 5))
def test_added_problems_never_turn_a_learnt_problem_into_a_test_problem(old: int, new: int, seed: int) -> None:
    """The champion of an earlier run is measured on the present test problems: it must not have seen their answers."""
    params = params_of("data").problems
    before = split_problems("data", read_files([("a", lines("a", old), "a")], Reader()), params, seed)
    grown = [("a", lines("a", old), "a"), ("b", lines("b", new), "b")]
    after = split_problems("data", read_files(grown, Reader()), params, seed)
    learnt = {problem.problem_id for split in ("train", "validation") for problem in before[split]}
    assert learnt.isdisjoint(problem.problem_id for problem in after["test"])


def test_the_longest_questions_are_named_by_their_places(tmp_path: Path) -> None:
    lines = [{"question": f"{n} " + "pens " * n, "answer": n} for n in range(1, LONGEST + 3)]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = longest_questions(tmp_path, params_of("own.jsonl"))
    assert len(found) == LONGEST
    assert next(iter(found)) == f"own.jsonl:{LONGEST + 2}"
    assert "own.jsonl:2" not in found


def test_a_file_of_another_kind_is_named_with_the_command_that_converts_it(tmp_path: Path) -> None:
    rows = [{"question": "1?", "answer": 2}, {"question": "2?", "answer": 3}]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pandas.DataFrame(rows).to_parquet(tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_bytes(lines.encode("utf-16"))
    for name, kind in (("a.jsonl.gz", "compressed with gzip"), ("b.parquet", "a Parquet file"), ("c.jsonl", "encoded")):
        with pytest.raises(GraftError, match=f"^{name}: {kind}.*, not JSON lines; convert it: ") as caught:
            problem_text(name, tmp_path / name)
        before = {*tmp_path.iterdir()}
        command = str(caught.value).partition("convert it: ")[2].replace("python", sys.executable, 1)
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        (made,) = {*tmp_path.iterdir()} - before
        assert [problem.answer for problem in Reader().read(name, made.read_text(encoding="utf-8"), name)] == [2, 3]
        made.unlink()
    (tmp_path / "d").mkdir()
    (tmp_path / "d/train.parquet").write_bytes(b"PAR1")
    with pytest.raises(GraftError, match=r"no \*\.jsonl in the folder d; .* 'train\.parquet', run graft"):
        problem_files(tmp_path, "d")
