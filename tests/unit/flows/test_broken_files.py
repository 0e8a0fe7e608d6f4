"""Law: whatever a file holds, its reader gives what is in it or one line about what is wrong with it.

Never another exception, never a hang, and nothing is written. By default 10,000 broken files for each reader, fewer
where reading one takes milliseconds; with GRAFT_BROKEN_FILES=10000 in the environment so many for every reader.
"""

import json
import os
import random
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from flows.dvc_stages.staleness import _listed
from flows.reports.run_lookup import find_run
from flows.reports.run_record import RunRecord, params_of_run, read_run_record
from flows.reports.search_tree import draw_tree
from flows.scheduling.changes import Seen, news
from flows.scheduling.history import Entry, entries
from flows.stages.durations import TimedRun, Timings, last_seconds
from flows.stages.dvc_yaml import declared_params
from tasks.artifacts import digest_text, line_of, read_json, read_jsonl, read_text, write_jsonl
from tasks.core.metrics_files import read_metrics, read_table
from tasks.errors import GraftError
from tasks.grpo.checkpoint import Checkpoint, _digest
from tasks.layout import Layout
from tasks.model.distributed.safe_serialization import serialize
from tasks.params.file import load_params
from tasks.problems.digests import ProblemFile
from tasks.problems.jsonl import read_problems
from tasks.programs.operators.model import Prompt
from tasks.programs.operators.openai_model import OpenAiModel
from tasks.programs.operators.reply_cache import CachedModel, StoredReply
from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.sandbox import _batch_results, _result
from tasks.programs.sandbox.zygote_client import ZygoteClient, ZygoteDied
from tasks.promotion.champion import read_champion, read_history
from tasks.records import (
    Attempt,
    Champion,
    Choice,
    Completion,
    Lineage,
    Problem,
    ProblemOutcome,
    Promotion,
    Result,
    RewardedTrajectory,
    Selected,
    Sibling,
    Standing,
    Succession,
    Trajectory,
    TreeNode,
    Workflow,
)
from tasks.rewards.term_process import _read as read_answer
from tasks.search.journal import Batch, EvaluatedCompletion, Journal
from tasks.sources.user_modules import parse_module
from tasks.statistics.influence_extremes import read_influence_extremes
from tasks.tracking.recorder import Answer
from tests.support import finished_run
from tests.support.broken_files import broken
from tests.support.records import make_workflow

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]
FULL = os.environ.get("GRAFT_BROKEN_FILES")
BATCH = 50
"""Broken files of one example: what hypothesis draws is the seed of them all."""

CODE = "def solve(problem):\n    n = numbers(problem)\n    return n[0] + n[1]\n"
"""A workflow."""


@dataclass
class Reader:
    """`read` is called after `file` (below the folder that it is given) was broken, with the folder."""

    file: str
    valid: bytes
    read: Callable[[Path], Any]
    count: int = 10_000
    around: Callable[[Path], Any] = field(default=lambda _: None)  # makes the files beside it


def text_of(records: BaseModel | Sequence[BaseModel]) -> bytes:
    listed = [records] if isinstance(records, BaseModel) else records
    return "".join(json.dumps(r.model_dump(mode="json"), sort_keys=True) + "\n" for r in listed).encode()


def of_lines(kind: type[BaseModel]) -> Callable[[Path], Any]:
    return lambda folder: read_jsonl(folder / "file", kind)


def of_json(kind: type[BaseModel]) -> Callable[[Path], Any]:
    return lambda folder: read_json(folder / "file", kind)


OK = Result(status="ok", value=5)
PROBLEM = Problem(
    problem_id="train-0001-sum",
    question="Ann has 2 pears and finds 3. How many?",
    answer=5,
    source="generated",
    template="sum",
    seen=True,
    operations=1,
    siblings=[Sibling(question="Ann has 4 pears and finds 3. How many?", answer=7)],
)
WORKFLOW = make_workflow(
    CODE,
    problem_id="train-0001-sum",
    visits=2,
    prior=0.25,
    result=OK,
    sibling_results=[Result(status="error", error="ValueError: x")],
    completions=[Completion(tokens=[1, 2, 3], logprobs=[-0.5, -1.0, 0.0])],
    sampled=1,
)
NODES = [
    TreeNode(
        problem_id="train-0001-sum",
        node_id=name,
        parent_id=name[:-2] or None,
        statement="a = n[0] + n[1]",
        depth=name.count("."),
        visits=3,
        value=0.5,
        prior=0.1,
        terminal=False,
    )
    for name in ("0", "0.0", "0.1")
]
TRAJECTORY: dict[str, Any] = {
    "problem_id": "train-0001-sum",
    "split": "train",
    "problem": PROBLEM,
    "prompt": "Ann has 2 pears",
    "workflow_codes": [CODE, "return 3"],
    "workflow_ids": ["w1", "w2"],
    "proposers": ["sample", "tree"],
    "results": [OK, OK],
    "sibling_results": [[OK], [OK]],
    "tokens": [[1, 2], []],
    "logprobs": [[-0.5, -0.25], []],
    "policy_version": "v",
}
REWARDED = RewardedTrajectory(
    **TRAJECTORY, rewards=[1.0, None], reward_terms={"correctness": [1.0, None]}, reward_status=["ok", "failed"]
)
SELECTED = [
    Selected(
        problem_id="train-0001-sum",
        member=member,
        workflow_id=f"w{member + 1}",
        advantage=1.0 - member,
        influence=0.5 - member,
        gradient_norm=1.0,
        selected=not member,
    )
    for member in range(2)
]
OUTCOME = ProblemOutcome(
    problem_id="p", template="sum", seen=True, greedy=True, siblings_passed=True, samples=20, correct=2, invalid=1,
    timeouts=0, distinct=2, wrong=[1], operations=None,
)  # fmt: skip
PROMOTION = Promotion(
    promoted=True, reason="promoted: better", pass_at_1=0.5, champion_pass_at_1=0.25, difference=0.25, low=0.1,
    high=0.4, version="v", champion_version=None,
)  # fmt: skip
LINEAGE = Lineage(version="v", parent=None, base="scratch", base_sha256=None, round=1, holds=["weights", "adapter"])
CHAMPION = Champion(version="v", test_sha256="0" * 64)
BATCHES = [
    Batch(name="n", seconds=0.5, written=[EvaluatedCompletion(completion=WORKFLOW.completions[0], results=[OK])])
]

DVC_YAML = b"stages:\n  update:\n    foreach: ${rounds}\n    do:\n      cmd: python\n      params: [seed, grpo.beta]\n"
DVC_LOCK = b"""schema: '2.0'
stages:
  problems: {cmd: python, params: {params.yaml: {seed: 0, problems.train: 20}}}
  update@1:
    cmd: python
    params:
      params.yaml:
        grpo.beta: 0.01
        policy.lora: {rank: 8}
  choose: {cmd: python, params: {params.yaml: {rounds.last: 1}}}
"""


def journal_of(content: bytes) -> bytes:
    """Each line under its own digest, so that it is believed."""
    lines = content.decode("utf-8", "replace").split("\n")
    return "".join(f"\n{digest_text(line)} {line}" for line in lines).encode()


def write_and_read(
    make: Callable[[bytes], bytes], read: Callable[[Path], Any], path: str = "file"
) -> Callable[[Path], Any]:
    """For files with a digest in them: what was broken before it is put right after."""

    def both(folder: Path) -> Any:
        broken_file = folder / path
        content = broken_file.read_bytes()
        broken_file.write_bytes(make(content))
        try:
            return read(folder)
        finally:
            broken_file.write_bytes(content)

    return both


def run_folder(folder: Path) -> None:
    finished_run.write(folder, rounds=1)


def account_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        account = read_run_record(finished_run.write(Path(name), rounds=1))
    return text_of(account.model_copy(update={"examples": account.examples[:2]}))


def checkpoint_bytes() -> bytes:
    import torch

    tensors = {"a": torch.ones(2, 3), "b": torch.zeros(1, dtype=torch.bfloat16)}
    return serialize(
        {"weights": tensors, "optimizer": {"state": {0: tensors}}, "schedule": {}, "rows": [{"loss": 0.5}]}
    )


CHAT = b"""{"id": "1", "object": "chat.completion", "created": 0, "model": "m",
"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "7"}}],
"usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}}"""

ANSWER: list[bytes] = [b""]
"""What the server below says."""


@cache
def asked(status: int) -> OpenAiModel:
    """A model behind a real server, which answers with this status and ANSWER."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(ANSWER[0])))
            self.end_headers()
            self.wfile.write(ANSWER[0])

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    own = {"backend": "openai", "model": "m", "base_url": url, "retries": 0, "price": [1.0, 2.0]}
    return OpenAiModel(load_params(REPOSITORY / "params.yaml").operators.model_copy(update=own))


def chat(status: int, folder: Path) -> None:
    """What a stage does with a reply: it is kept, counted, entered into the ledger, and told to the program."""
    ANSWER[0] = (folder / "file").read_bytes()
    model = asked(status)
    with tempfile.TemporaryDirectory() as name:
        served = CachedModel(model, model._params, Path(name, "replies"))
        (reply,) = served.complete([Prompt("ask", "3 + 4?")])
        again = CachedModel(model, model._params, Path(name, "replies"))
        if reply.text is not None:
            assert again.complete([Prompt("ask", "3 + 4?")]) == [reply], "what is kept is what was said"
            assert again.ledger.remembered == 1
        served.log_usage(Path(name, "ledger.jsonl"), "search@1")
        assert json.loads(Path(name, "ledger.jsonl").read_text())["calls"] == 1
        json.dumps(served.metrics, allow_nan=False)
        if reply.text is None:
            raise GraftError(reply.failed or reply.refused or "")


def refused(folder: Path) -> None:
    """A status that says no is told whatever comes with it."""
    try:
        chat(400, folder)
    except GraftError:
        return
    raise AssertionError("read as a reply")


JOB = (CODE, "2 and 3?")


def framed(*endings: Any, many: bool) -> bytes:
    return protocol.pack(protocol.ENDINGS, json.dumps(list(endings) if many else endings[0]).encode())


def told_by_sandbox(many: bool, folder: Path) -> None:
    """What the host makes of a zygote's answer: results that can be written down, or none."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall((folder / "file").read_bytes())
        theirs.shutdown(socket.SHUT_WR)
        worker = ZygoteClient(1.0, 64, [])
        worker._socket = ours
        try:
            answer = worker._exchange(b"", 10.0)
        except ZygoteDied as error:
            raise GraftError(str(error)) from None
        finally:
            worker.close()
    results = list(_batch_results([JOB, JOB], *answer).values()) if many else [_result(*answer)]
    for result in results:
        if isinstance(result, Result):
            assert line_of(result)


SEEN = Seen(
    problems={"a.jsonl": ProblemFile(sha256="0", problems=3)}, params={"seed": "0"}, sources={"tasks/a.py": "1"}
)
SUCCESSION = Succession(version="v", replaced=None, how="promoted", reason="better", time="2026-11-22T18:00:00Z")
ENTRY = Entry(when="2026-11-22 03:00:00", done=True, line="Promoted", flow_run="f", mlflow_run=None)

READERS: dict[str, Reader] = {
    "a chat reply": Reader("file", CHAT, partial(chat, 200), 500),
    "a chat server's refusal": Reader("file", b'{"error": {"message": "no"}}', refused, 200),
    "what a program's process sends": Reader(
        "file", framed(["ok", 5, None], many=False), partial(told_by_sandbox, False), 3_000
    ),
    "what a program asks": Reader(
        "file", framed(["ask", "ask", "3 + 4?"], many=False), partial(told_by_sandbox, False), 3_000
    ),
    "what a warm worker sends": Reader(
        "file",
        framed(["ok", [1, 2.5, "x"], None], ["error", None, "ValueError: x"], many=True),
        partial(told_by_sandbox, True),
        3_000,
    ),
    "history.jsonl": Reader(".graft/history.jsonl", text_of([ENTRY, ENTRY]), entries, 3_000),
    "champion's history": Reader("history.jsonl", text_of([SUCCESSION, SUCCESSION]), read_history, 3_000),
    "seen.json": Reader("file", text_of(SEEN), lambda folder: news(read_json(folder / "file", Seen), SEEN), 3_000),
    "sources of the last run": Reader("file", b'{"tasks/a.py": "1"}\n', lambda folder: _listed(folder / "file"), 3_000),
    "seconds of a stage": Reader(
        ".graft/seconds/search@1.json",
        text_of(Timings(runs=[TimedRun(seconds=1.5, params={"seed": "0"})])),
        lambda folder: last_seconds(Layout(folder)),
        3_000,
    ),
    "problems.jsonl": Reader(
        "file",
        b'{"question": "1 and 2", "answer": "#### 3", "id": "a", "siblings": [{"question": "2 and 2", "answer": 4}]}\n'
        b'{"question": "3 and 2?", "answer": 5.5, "problem_id": 7}\n',
        lambda folder: read_problems("file", read_text(folder / "file"), "file"),
    ),
    "params.yaml": Reader(
        "file", (REPOSITORY / "params.yaml").read_bytes(), lambda folder: load_params(folder / "file"), 1_000
    ),
    "dvc.yaml": Reader("dvc.yaml", DVC_YAML, lambda folder: declared_params(folder, "update"), 3_000),
    "dvc.lock": Reader(
        "dvc.lock",
        DVC_LOCK,
        params_of_run,
        3_000,
        lambda folder: (folder / "params.yaml").write_text("seed: 0\nrounds: {last: 1}\n"),
    ),
    "params.yaml of another run": Reader(
        "params.yaml", b"seed: 0\nrounds: {last: 1}\na: {b: [1, 2], c: 'x'}\n", params_of_run, 3_000
    ),
    "problems of a run": Reader("file", text_of([PROBLEM, PROBLEM]), of_lines(Problem)),
    "index.jsonl": Reader("file", text_of([WORKFLOW, WORKFLOW]), of_lines(Workflow)),
    "trees.jsonl": Reader(
        "run/rounds/1/workflows/trees.jsonl",
        text_of(NODES),
        lambda folder: draw_tree(Layout(folder), "train-0001-sum", 1),
        10_000,
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
        3_000,
        lambda folder: write_jsonl(Layout(folder).rewarded(1), [REWARDED]),
    ),
    "rewarded and its extremes": Reader(
        "run/rounds/1/rewarded.jsonl",
        text_of([REWARDED]),
        lambda folder: read_influence_extremes(Layout(folder), 1),
        3_000,
        lambda folder: write_jsonl(Layout(folder).selection(1), SELECTED),
    ),
    "account.json": Reader("file", account_bytes(), of_json(RunRecord), 3_000),
    "an account that is compared": Reader("file", account_bytes(), lambda folder: compared(folder / "file"), 1_000),
    "outcomes of a finished run": Reader(
        "run/evaluation/after/outcomes.jsonl",
        text_of([OUTCOME]),
        lambda folder: read_run_record(Layout(folder)),
        100,
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
        "file", b'{"run_id": "a", "experiment_id": "1", "errors": ["b"]}\n', of_json(Answer)
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


@pytest.mark.parametrize("name", READERS)
def test_a_broken_file_is_read_or_told(name: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader = READERS[name]
    file = folder / reader.file
    file.parent.mkdir(parents=True, exist_ok=True)
    reader.around(folder)
    file.write_bytes(reader.valid)
    reader.read(folder)  # whole it is read
    count = max(int(FULL), 1) if FULL else reader.count
    seen = {"read": 0, "told": 0}
    caplog.set_level("CRITICAL")

    @settings(
        max_examples=max(count // BATCH, 1),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**64))
    def each(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(BATCH):
            content = broken(reader.valid, rng)
            file.write_bytes(content)
            try:
                reader.read(folder)
            except GraftError as error:
                line = str(error)
                assert "\n" not in line, content
                assert line.isprintable(), content
                assert len(line) <= 2100, content
                seen["told"] += 1
            except Exception as error:
                raise AssertionError(f"{type(error).__name__} of {content!r}") from error
            else:
                seen["read"] += 1
        left = listed(folder)
        assert left.pop(reader.file) == content
        assert left == before

    before = listed(folder)
    del before[reader.file]
    each()
    assert sum(seen.values()) >= count // BATCH * BATCH
