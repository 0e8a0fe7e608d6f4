"""Law: a reader of a broken file returns what is in it, or raises one line about what is wrong with it.

It raises no other exception, does not hang, and writes nothing. GRAFT_BROKEN_FILES is the number of broken files per
reader in the slow tier.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flows.dvc_stages.staleness import _listed
from flows.reports.run_lookup import find_run
from flows.reports.run_record import RunRecord, params_of_run, read_run_record
from flows.reports.search_tree import draw_tree
from flows.scheduling.changes import RunInputs, describe_changes
from flows.scheduling.history import entries
from flows.stages.durations import TimedRun, Timings, last_seconds
from flows.stages.dvc_yaml import declared_params
from tasks.artifacts import read_json, read_jsonl, read_text, write_jsonl
from tasks.core.metrics_files import read_metrics, read_table
from tasks.errors import GraftError
from tasks.grpo.checkpoint import Checkpoint, _digest
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.problems.jsonl import read_problems
from tasks.programs.operators.reply_cache import StoredReply
from tasks.promotion.champion import read_champion, read_history
from tasks.records import (
    Attempt,
    Choice,
    Lineage,
    Problem,
    ProblemOutcome,
    Promotion,
    RewardedTrajectory,
    Selected,
    Standing,
    Trajectory,
    Workflow,
)
from tasks.rewards.term_process import _read as read_answer
from tasks.search.journal import Journal
from tasks.sources.user_modules import parse_module
from tasks.statistics.influence_extremes import read_influence_extremes
from tasks.tracking.recorder import WorkerAnswer
from tests.support.broken_files import broken
from tests.support.valid_files import (
    BATCHES,
    CHAMPION,
    CHAT,
    CODE,
    DVC_LOCK,
    DVC_YAML,
    ENTRY,
    LINEAGE,
    NODES,
    OK,
    OUTCOME,
    PROBLEM,
    PROMOTION,
    REWARDED,
    SEEN,
    SELECTED,
    SUCCESSION,
    TRAJECTORY,
    WORKFLOW,
    account_bytes,
    chat,
    checkpoint_bytes,
    framed,
    journal_of,
    read_zygote_answer,
    refused,
    run_folder,
    text_of,
    write_and_read,
)

REPOSITORY = Path(__file__).parents[3]
FEW = 20
MANY = max(int(os.environ.get("GRAFT_BROKEN_FILES", "200")), FEW)


@dataclass
class Reader:
    """`read` is called with a folder in which `file`, `valid` at first, was broken."""

    file: str
    valid: bytes
    read: Callable[[Path], Any]
    around: Callable[[Path], Any] = field(default=lambda _: None)  # writes the files that it needs as well


def of_lines(kind: type[BaseModel]) -> Callable[[Path], Any]:
    return lambda folder: read_jsonl(folder / "file", kind)


def of_json(kind: type[BaseModel]) -> Callable[[Path], Any]:
    return lambda folder: read_json(folder / "file", kind)


READERS: dict[str, Reader] = {
    "a chat reply": Reader("file", CHAT, partial(chat, 200)),
    "a chat server's refusal": Reader("file", b'{"error": {"message": "no"}}', refused),
    "what a program's process sends": Reader(
        "file", framed(["ok", 5, None], many=False), partial(read_zygote_answer, False)
    ),
    "what a program asks": Reader(
        "file", framed(["ask", "ask", "3 + 4?"], many=False), partial(read_zygote_answer, False)
    ),
    "what a warm worker sends": Reader(
        "file",
        framed(["ok", [1, 2.5, "x"], None], ["error", None, "ValueError: x"], many=True),
        partial(read_zygote_answer, True),
    ),
    "history.jsonl": Reader(".graft/history.jsonl", text_of([ENTRY, ENTRY]), entries),
    "champion's history": Reader("history.jsonl", text_of([SUCCESSION, SUCCESSION]), read_history),
    "seen.json": Reader(
        "file", text_of(SEEN), lambda folder: describe_changes(read_json(folder / "file", RunInputs), SEEN)
    ),
    "sources of the last run": Reader("file", b'{"tasks/a.py": "1"}\n', lambda folder: _listed(folder / "file")),
    "seconds of a stage": Reader(
        ".graft/seconds/search@1.json",
        text_of(Timings(runs=[TimedRun(seconds=1.5, params={"seed": "0"})])),
        lambda folder: last_seconds(Layout(folder)),
    ),
    "problems.jsonl": Reader(
        "file",
        b'{"question": "1 and 2", "answer": "#### 3", "id": "a", "siblings": [{"question": "2 and 2", "answer": 4}]}\n'
        b'{"question": "3 and 2?", "answer": 5.5, "problem_id": 7}\n',
        lambda folder: read_problems("file", read_text(folder / "file"), "file"),
    ),
    "params.yaml": Reader(
        "file", (REPOSITORY / "params.yaml").read_bytes(), lambda folder: load_params(folder / "file")
    ),
    "dvc.yaml": Reader("dvc.yaml", DVC_YAML, lambda folder: declared_params(folder, "update")),
    "dvc.lock": Reader(
        "dvc.lock",
        DVC_LOCK,
        params_of_run,
        lambda folder: (folder / "params.yaml").write_text("seed: 0\nrounds: {last: 1}\n"),
    ),
    "params.yaml of another run": Reader(
        "params.yaml", b"seed: 0\nrounds: {last: 1}\na: {b: [1, 2], c: 'x'}\n", params_of_run
    ),
    "problems of a run": Reader("file", text_of([PROBLEM, PROBLEM]), of_lines(Problem)),
    "index.jsonl": Reader("file", text_of([WORKFLOW, WORKFLOW]), of_lines(Workflow)),
    "trees.jsonl": Reader(
        "run/rounds/1/workflows/trees.jsonl",
        text_of(NODES),
        lambda folder: draw_tree(Layout(folder), "train-0001-sum", 1),
        lambda folder: write_jsonl(Layout(folder).problems("train"), [PROBLEM]),
    ),
    "trajectories.jsonl": Reader("file", text_of([Trajectory(**TRAJECTORY)] * 2), of_lines(Trajectory)),
    "rewarded.jsonl": Reader("file", text_of([REWARDED] * 2), of_lines(RewardedTrajectory)),
    "selection.jsonl": Reader("file", text_of(SELECTED), of_lines(Selected)),
    "standings.jsonl": Reader(
        "file",
        text_of([Standing(round=1, version="v", policy_sha256="d", samples=4, correct=[1, 2])] * 2),
        lambda folder: [standing.pass_at_1 for standing in read_jsonl(folder / "file", Standing)],
    ),
    "best.json": Reader("file", text_of(Choice(round=1, version="v", reason="the only one")), of_json(Choice)),
    "outcomes.jsonl": Reader("file", text_of([OUTCOME] * 2), of_lines(ProblemOutcome)),
    "attempts.jsonl": Reader(
        "file",
        text_of(
            Attempt(problem_id="p", code=CODE, greedy=True, samples=3, right=True, siblings_passed=None, result=OK)
        ),
        of_lines(Attempt),
    ),
    "promotion.json": Reader("file", text_of(PROMOTION), of_json(Promotion)),
    "lineage.json": Reader("file", text_of(LINEAGE), of_json(Lineage)),
    "champion.json": Reader("champion.json", text_of(CHAMPION), lambda folder: read_champion(folder, "workflow")),
    "metrics.json": Reader(
        "run/metrics/reward@1.json",
        b'{\n  "a": 1,\n  "b": 0.5\n}\n',
        lambda folder: read_metrics(Layout(folder), "reward@1"),
    ),
    "a table of steps": Reader("file", b"step,loss,kl\n1,0.5,0.1\n2,0.4,0.2\n", lambda folder: table(folder / "file")),
    "selection and its extremes": Reader(
        "run/rounds/1/selection.jsonl",
        text_of(SELECTED),
        lambda folder: read_influence_extremes(Layout(folder), 1),
        lambda folder: write_jsonl(Layout(folder).rewarded(1), [REWARDED]),
    ),
    "rewarded and its extremes": Reader(
        "run/rounds/1/rewarded.jsonl",
        text_of([REWARDED]),
        lambda folder: read_influence_extremes(Layout(folder), 1),
        lambda folder: write_jsonl(Layout(folder).selection(1), SELECTED),
    ),
    "account.json": Reader("file", account_bytes(), of_json(RunRecord)),
    "an account that is compared": Reader("file", account_bytes(), lambda folder: compared(folder / "file")),
    "outcomes of a finished run": Reader(
        "run/evaluation/after/outcomes.jsonl",
        text_of([OUTCOME]),
        lambda folder: read_run_record(Layout(folder)),
        run_folder,
    ),
    "journal": Reader("file", text_of(BATCHES), lambda folder: Journal(folder / "file").completions),
    "journal under its digest": Reader(
        "file", text_of(BATCHES), write_and_read(journal_of, lambda folder: Journal(folder / "file").completions)
    ),
    "checkpoint": Reader("file", checkpoint_bytes(), lambda folder: Checkpoint(folder / "file").load()),
    "checkpoint under its digest": Reader(
        "file",
        checkpoint_bytes(),
        write_and_read(lambda c: c + _digest(c), lambda folder: Checkpoint(folder / "file").load()),
    ),
    "a remembered reply": Reader(
        "file", text_of(StoredReply(text="x", prompt_tokens=1, completion_tokens=2)), of_json(StoredReply)
    ),
    "what MLflow's process answers": Reader(
        "file", b'{"run_id": "a", "experiment_id": "1", "errors": ["b"]}\n', of_json(WorkerAnswer)
    ),
    "what a term's process answers": Reader(
        "file", b"[0.5, null]\n", lambda folder: read_answer((folder / "file").read_bytes())
    ),
    "a module of the user's": Reader("file", CODE.encode(), lambda folder: parse_module(folder / "file")),
    "tree.svg and the like": Reader("file", "<svg>ä</svg>".encode(), lambda folder: read_text(folder / "file")),
}


def table(path: Path) -> list[dict[str, float]]:
    try:
        return read_table(path)
    except ValueError as error:  # its callers say which stage writes it
        raise GraftError(str(error)) from None


def compared(path: Path) -> None:
    from flows.reports.comparison import make_sides
    from flows.reports.html.page import render_page

    render_page(make_sides([("it", find_run(str(path), path.parent))]))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory, where that is to be had: ten thousand files are written."""
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


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("name", READERS)
def test_a_broken_file_is_read_or_is_an_error_in_one_line(
    name: str, count: int, folder: Path, caplog: pytest.LogCaptureFixture
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
    rng = random.Random(name)
    for number in range(count):
        content = broken(reader.valid, rng)
        file.write_bytes(content)
        try:
            reader.read(folder)
        except GraftError as error:
            line = str(error)
            assert "\n" not in line, content
            assert line.isprintable(), content
            assert len(line) <= 2100, content
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} of {content!r}") from error
        if number % FEW == FEW - 1:
            left = listed(folder)
            assert left.pop(reader.file) == content
            assert left == before
