"""Valid contents of the files and messages that Graft reads, with readers for those that are no plain files."""

import json
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from flows.history.changes import RunInputs
from flows.history.run_history import Entry
from flows.reports.run_record import read_run_record
from tasks.artifacts import digest_text, line_of
from tasks.errors import GraftError
from tasks.problems.digests import ProblemFile
from tasks.programs.operators.model import CachedModel, Prompt
from tasks.programs.operators.openai_model import OpenAiModel
from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.sandbox import _batch_results, _result
from tasks.programs.sandbox.zygote_client import ZygoteClient, ZygoteDied
from tasks.records.policy import Lineage
from tasks.records.programs import Result
from tasks.records.promotion import Champion, Succession
from tasks.records.search import AskedProblem, Completion, TreeNode
from tasks.search.journal import EvaluatedCompletion, FinishedBatch
from tests.support import finished_run
from tests.support.chat_server import chat_server
from tests.support.groups import make_group, with_rewards
from tests.support.records import make_outcome, make_promotion, make_workflow
from tests.support.selections import selected
from tests.support.stage_params import SHIPPED

CODE = "def solve(problem):\n    n = numbers(problem)\n    return n[0] + n[1]\n"
"""A workflow."""


def text_of(records: BaseModel | Sequence[BaseModel]) -> bytes:
    listed = [records] if isinstance(records, BaseModel) else records
    return "".join(json.dumps(r.model_dump(mode="json"), sort_keys=True) + "\n" for r in listed).encode()


OK = Result(status="ok", value=5)
PROBLEM = finished_run.problem(2).model_copy(update={"problem_id": "train-0001-sum"})
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
ASKED = AskedProblem(split="train", problem=PROBLEM, prompt="Ann has 2 pears", prompt_tokens=[7, 8])
REWARDED = with_rewards(make_group([CODE, "return 3"], [OK, OK], 1), [1.0, None])
SELECTED = selected(REWARDED, [1.0, 0.0])
OUTCOME = make_outcome("p", template="sum", seen=True, correct=2, samples=20, wrong=[1])
PROMOTION = make_promotion()
LINEAGE = Lineage(version="v", parent=None, base="scratch", base_sha256=None, round=1, holds=["weights", "adapter"])
CHAMPION = Champion(version="v", test_sha256="0" * 64)
BATCHES = [FinishedBatch(name="n", written=[EvaluatedCompletion(completion=WORKFLOW.completions[0], results=[OK])])]

DVC_YAML = (
    b"stages:\n  update:\n    foreach: ${rounds}\n    do:\n      cmd: python\n      params: [seed, update.beta]\n"
)
DVC_LOCK = b"""schema: '2.0'
stages:
  problems: {cmd: python, params: {params.yaml: {seed: 0, problems.train: 20}}}
  update@1:
    cmd: python
    params:
      params.yaml:
        update.beta: 0.01
        policy.lora: {rank: 8}
  choose: {cmd: python, params: {params.yaml: {rounds.last: 1}}}
"""


def journal_of(content: bytes) -> bytes:
    """Each line with its digest, so that it is accepted."""
    lines = content.decode("utf-8", "replace").split("\n")
    return "".join(f"\n{digest_text(line)} {line}" for line in lines).encode()


def write_and_read(
    make: Callable[[bytes], bytes], read: Callable[[Path], Any], path: str = "file"
) -> Callable[[Path], Any]:
    """For files with a digest: it is computed after the content was broken."""

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
    state = {"weights": tensors, "optimizer": {"state": {0: tensors}}, "schedule": {}, "rows": [{"loss": 0.5}]}
    torch.save(state, stream := BytesIO())
    return stream.getvalue()


CHAT = b"""{"id": "1", "object": "chat.completion", "created": 0, "model": "m",
"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "7"}}],
"usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}}"""

ANSWER: list[bytes] = [b""]
"""Body of the server's answer."""

SERVERS = ExitStack()


@cache
def model_with_status(status: int) -> OpenAiModel:
    """A model behind a real server, which answers with this status and ANSWER for as long as the tests last."""
    server = SERVERS.enter_context(chat_server(lambda *_: (status, ANSWER[0])))
    own = {"backend": "openai", "model": "m", "base_url": server.url, "price": [1.0, 2.0]}
    return OpenAiModel(SHIPPED.operators.model_copy(update=own), retries=0)


def chat(status: int, folder: Path) -> None:
    """Read a chat reply as a stage does: cache it, count it and write the ledger."""
    ANSWER[0] = (folder / "file").read_bytes()
    model = model_with_status(status)
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
    """An error status is reported whatever the body."""
    try:
        chat(400, folder)
    except GraftError:
        return
    raise AssertionError("read as a reply")


JOB = (CODE, "2 and 3?")


def framed(*endings: Any, many: bool) -> bytes:
    return protocol.pack(protocol.ENDINGS, json.dumps(list(endings) if many else endings[0]).encode())


def read_zygote_answer(many: bool, folder: Path) -> None:
    """Read a zygote's answer as the host does: results that can be written to a file, or none."""
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


SEEN = RunInputs(
    problems={"a.jsonl": ProblemFile(sha256="0", problems=3)}, params={"seed": "0"}, sources={"tasks/a.py": "1"}
)
SUCCESSION = Succession(version="v", replaced=None, how="promoted", reason="better", time="2026-11-22T18:00:00Z")
ENTRY = Entry(
    when="2026-11-22 03:00:00",
    done=True,
    line="Promoted",
    flow_run="f",
    mlflow_run=None,
    number=1,
    name="1 · first run",
    scheduled=True,
)
