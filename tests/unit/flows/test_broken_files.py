"""Law: a reader of a broken file returns what is in it, or raises one line about what is wrong with it.

It raises no other exception, does not hang, and writes nothing.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flows.dvc_stages.staleness import _listed
from flows.history.changes import RunInputs, summarise_change
from flows.history.run_history import entries
from flows.reports.comparison import make_sides
from flows.reports.html.page import render_page
from flows.reports.run_lookup import find_run
from flows.reports.run_record import RunRecord, params_of_run, read_run_record
from flows.reports.search_tree import draw_tree
from flows.stages.durations import Timing, last_seconds
from flows.stages.dvc_yaml import declared_params
from tasks.artifacts import read_json, read_jsonl, read_text, write_jsonl
from tasks.core.child_process import parse
from tasks.core.metrics_files import read_metrics, read_table
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.training_checkpoint import Checkpoint
from tasks.params.file import load_params
from tasks.problems import jsonl
from tasks.programs.operators.model import StoredReply
from tasks.promote.champion import read_champion, read_history
from tasks.records.evaluation import Attempt, Choice, ProblemOutcome, Standing
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.records.promotion import Promotion
from tasks.records.search import AskedProblem, Workflow
from tasks.records.selection import Selected
from tasks.reward.user_terms import _value
from tasks.reward.weighted_sum import TermValue
from tasks.search.journal import Journal
from tasks.sources.user_modules import parse_module
from tasks.tracking.recorder import WorkerAnswer
from tasks.trajectories import Reward, Trajectory
from tests.support import valid_files as valid
from tests.support.broken_files import broken, case_numbers
from tests.support.stage_params import REPOSITORY
from tests.support.valid_files import framed, read_zygote_answer, text_of

FEW = range(20)
MANY = case_numbers()


@dataclass
class Reader:
    """`read` is called with a folder in which `file`, `valid` at first, was broken."""

    valid: bytes
    read: Callable[[Path], Any]
    file: str = "file"
    around: Callable[[Path], Any] = lambda _: None  # writes the files that it needs as well


def of_file(content: bytes, read: Callable[[Path], Any]) -> Reader:
    return Reader(content, lambda folder: read(folder / "file"))


def of_lines(kind: type[BaseModel], *lines: BaseModel) -> Reader:
    return of_file(text_of(lines), lambda file: read_jsonl(file, kind))


def of_json(kind: type[BaseModel], content: bytes) -> Reader:
    return of_file(content, lambda file: read_json(file, kind))


def under_digest(content: bytes, sign: Callable[[bytes], bytes], read: Callable[[Path], Any]) -> Reader:
    return Reader(content, valid.write_and_read(sign, lambda folder: read(folder / "file")))


def table(path: Path) -> list[dict[str, float]]:
    try:
        return read_table(path)
    except ValueError as error:  # its callers say which stage writes it
        raise GraftError(str(error)) from None


def answer(path: Path) -> TermValue | None:
    try:
        return _value(parse(path.read_bytes()))
    except ValueError:  # its caller says that the answer is none
        return None


JOURNAL = text_of(valid.BATCHES)
CHECKPOINT = valid.checkpoint_bytes()
ACCOUNT = valid.account_bytes()
TIMING = Timing(seconds=1.5)
PROBLEMS = b"""{"question": "1 and 2", "answer": "#### 3", "id": "a", "siblings": [{"question": "2, 2", "answer": 4}]}
{"question": "3 and 2?", "answer": 5.5, "problem_id": 7}
"""
STANDING = Standing(round=1, version="v", policy_sha256="d", samples=4, correct=[1, 2])
ATTEMPT = Attempt(
    problem_id="p", code=valid.CODE, greedy=True, samples=3, right=True, siblings_passed=None, result=valid.OK
)
TRAJECTORY, REWARDS = valid.REWARDED
CHOICE = Choice(round=1, version="v", reason="the only one")
REPLY = StoredReply(text="x", prompt_tokens=1, completion_tokens=2)
WARM = framed(["ok", [1, 2.5, "x"], None], ["error", None, "ValueError: x"], many=True)


READERS: dict[str, Reader] = {
    "a chat reply": Reader(valid.CHAT, partial(valid.chat, 200)),
    "a chat server's refusal": Reader(b'{"error": {"message": "no"}}', valid.refused),
    "what a program's process sends": Reader(framed(["ok", 5, None], many=False), partial(read_zygote_answer, False)),
    "what a program asks": Reader(framed(["ask", "ask", "3 + 4?"], many=False), partial(read_zygote_answer, False)),
    "what a warm worker sends": Reader(WARM, partial(read_zygote_answer, True)),
    "history.jsonl": Reader(text_of([valid.ENTRY] * 2), entries, ".graft/history.jsonl"),
    "champion's history": Reader(text_of([valid.SUCCESSION] * 2), read_history, "history.jsonl"),
    "seen.json": of_file(text_of(valid.SEEN), lambda file: summarise_change(read_json(file, RunInputs), valid.SEEN)),
    "sources of the last run": of_file(b'{"tasks/a.py": "1"}\n', _listed),
    "seconds of a stage": Reader(
        text_of(TIMING), lambda folder: last_seconds(Layout(folder), "search@1"), ".graft/seconds/search@1.json"
    ),
    "problems.jsonl": of_file(PROBLEMS, lambda file: jsonl.Reader().read("file", read_text(file), "file")),
    "params.yaml": of_file((REPOSITORY / "params.yaml").read_bytes(), load_params),
    "dvc.yaml": Reader(valid.DVC_YAML, lambda folder: declared_params(folder, "update"), "dvc.yaml"),
    "dvc.lock": Reader(
        valid.DVC_LOCK,
        params_of_run,
        "dvc.lock",
        lambda folder: (folder / "params.yaml").write_text("seed: 0\nrounds: {last: 1}\n"),
    ),
    "params.yaml of another run": Reader(
        b"seed: 0\nrounds: {last: 1}\na: {b: [1, 2], c: 'x'}\n", params_of_run, "params.yaml"
    ),
    "problems of a run": of_lines(Problem, valid.PROBLEM, valid.PROBLEM),
    "index.jsonl": of_lines(Workflow, valid.WORKFLOW, valid.WORKFLOW),
    "trees.jsonl": Reader(
        text_of(valid.NODES),
        lambda folder: draw_tree(Layout(folder), "train-0001-sum", 1),
        "run/rounds/1/workflows/trees.jsonl",
        lambda folder: write_jsonl(Layout(folder).workflows(1) / "problems.jsonl", [valid.ASKED]),
    ),
    "problems as asked": of_lines(AskedProblem, valid.ASKED, valid.ASKED),
    "trajectories.jsonl": of_lines(Trajectory, TRAJECTORY, TRAJECTORY),
    "rewards.jsonl": of_lines(Reward, *REWARDS),
    "selection.jsonl": of_lines(Selected, *valid.SELECTED),
    "standings.jsonl": of_file(
        text_of([STANDING] * 2), lambda file: [standing.pass_at_1 for standing in read_jsonl(file, Standing)]
    ),
    "best.json": of_json(Choice, text_of(CHOICE)),
    "outcomes.jsonl": of_lines(ProblemOutcome, valid.OUTCOME, valid.OUTCOME),
    "attempts.jsonl": of_lines(Attempt, ATTEMPT),
    "promotion.json": of_json(Promotion, text_of(valid.PROMOTION)),
    "lineage.json": of_json(Lineage, text_of(valid.LINEAGE)),
    "champion.json": Reader(text_of(valid.CHAMPION), lambda folder: read_champion(folder, "workflow"), "champion.json"),
    "metrics.json": Reader(
        b'{\n  "a": 1,\n  "b": 0.5\n}\n',
        lambda folder: read_metrics(Layout(folder), "reward@1"),
        "run/metrics/reward@1.json",
    ),
    "a table of steps": of_file(b"step,loss,kl\n1,0.5,0.1\n2,0.4,0.2\n", table),
    "account.json": of_json(RunRecord, ACCOUNT),
    "an account that is compared": of_file(
        ACCOUNT, lambda file: render_page(make_sides([find_run(str(file), file.parent)]))
    ),
    "outcomes of a finished run": Reader(
        text_of([valid.OUTCOME]),
        lambda folder: read_run_record(Layout(folder)),
        "run/evaluation/after/outcomes.jsonl",
        valid.run_folder,
    ),
    "journal": of_file(JOURNAL, lambda file: Journal(file).completions),
    "journal under its digest": under_digest(JOURNAL, valid.journal_of, lambda file: Journal(file).completions),
    "checkpoint": of_file(CHECKPOINT, lambda file: Checkpoint(file).load()),
    "checkpoint under its digest": under_digest(
        CHECKPOINT, lambda content: content + sha256(content).digest(), lambda file: Checkpoint(file).load()
    ),
    "a remembered reply": of_json(StoredReply, text_of(REPLY)),
    "what MLflow's process answers": of_json(WorkerAnswer, b'{"run_id": "a", "experiment_id": "1", "errors": ["b"]}\n'),
    "what a term's process answers": of_file(b"[0.5, null]\n", answer),
    "a module of the user's": of_file(valid.CODE.encode(), parse_module),
    "tree.svg and the like": of_file("<svg>ä</svg>".encode(), read_text),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory if possible: ten thousand files are written."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="graft-broken-", dir=memory))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def listed(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("cases", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("name", READERS)
def test_a_broken_file_is_read_or_is_an_error_in_one_line(
    name: str, cases: range, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = READERS[name]
    file = folder / reader.file
    file.parent.mkdir(parents=True, exist_ok=True)
    reader.around(folder)
    file.write_bytes(reader.valid)
    reader.read(folder)  # the valid file
    caplog.set_level("CRITICAL")
    before = listed(folder)
    del before[reader.file]
    for number in cases:
        content = broken(reader.valid, random.Random(number))
        file.write_bytes(content)
        try:
            reader.read(folder)
        except GraftError as error:
            line = str(error)
            assert line.isprintable(), number
            assert len(line) <= 2100, number
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} in case {number}") from error
        if number % len(FEW) == len(FEW) - 1:
            left = listed(folder)
            assert left.pop(reader.file) == content
            assert left == before
