"""A sandbox for programs written by a model: many programs, each on many questions, each value plain and bounded.

A fresh process (zygote.py), which holds no answers, no keys and no files, forks a child per program and question. The
child locks itself down (lockdown.py) before the program's first line. Plain programs (plain_programs.py) share one, a
batch at a time. Operators that need a model (model_calls.py) are answered by the host: it receives the
prompts and runs the program again with the replies. The host itself only compares values (answer_check.py).
"""

import json
import math
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.errors import GraftError
from tasks.params.sections import SandboxParams
from tasks.programs.operators.model import CachedModel, Prompt
from tasks.programs.operators.model_calls import MODEL_OPERATORS, ModelCall, is_valid_prompt
from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.children import Service
from tasks.programs.sandbox.determinism import may_differ
from tasks.programs.sandbox.lockdown import LAYERS
from tasks.programs.sandbox.plain_programs import is_plain
from tasks.programs.sandbox.prompt_replay import PromptReplay, error_result, reply_to_all
from tasks.programs.sandbox.run_program import clean_error, is_unicode, value_ending
from tasks.programs.sandbox.zygote_client import ZygoteClient, ZygoteDied, require_linux
from tasks.records.problems import Problem
from tasks.records.programs import Result

Tier = Literal["full", "partial", "limits-only"]

BARRIERS = ("landlock", "seccomp")
"""The layers that deny files and the network."""

MAX_SOURCE = 20_000
"""Longest program, in bytes of UTF-8."""

SANDBOX_DIED = "the sandbox process died"
"""Error of a `failed` result; any other death of a process is the program's own fault."""

_KNOWN = (
    "def solve(problem):\n    n = numbers(problem)\n    a = calculate('6 * 7')\n"
    "    return majority([a * 1000 + n[0] + compare(a, n[0]), 1]) + 0.5\n",
    "3 hours",
    ["ok", 42004.5, None],
)
"""A program, a question and its ending. It runs at the end of a batch and ends so if the operators and the rest of the
child are still what they were."""

NOT_DETERMINISTIC = "answers differ when it is run again: a workflow must be deterministic"

BATCH = 128
"""Largest number of (program, question) pairs that share a child."""


@dataclass(frozen=True)
class Program:
    """A workflow and the questions to run it on.

    `problem`: for the host alone, which reads and scores answers by it; no part of it enters the sandbox.
    """

    code: str
    questions: tuple[str, ...]
    problem: Problem | None = field(default=None, hash=False)  # it has lists


Job = tuple[str, str]
"""(code, question)."""

Payloads = tuple[bytes, ...]
"""The payload for the zygote, and of a service what goes past it to a child."""

ResultBytes = tuple[bytes, bytes]
"""The zygote's (kind, payload)."""


class Sandbox:
    """A pool of zygotes: `with Sandbox(2.0, 256, False) as sandbox: sandbox.run([Program(code, (question,))])`.

    `seconds`: wall-clock limit of one program on one question; up to 5 s of waiting for a processor do not count.
    `memory_mb`: limit of its address space, or of its resident memory where the kernel does not enforce the former.
    `workers`: programs at a time, one per core by default. `layers`: the layers of protection, all by default.
    `model`: answers the operators that need one; without it, calling such an operator is an error. `service`: serves
    `ask_service` in the zygotes. Raises GraftError where no layer of BARRIERS can be enforced, unless `allow_weak`, and
    always on other systems than Linux.

    Results depend on programs, questions and replies alone, not on workers, order, batches or earlier runs (except
    for programs whose running time is close to the limit). Not thread-safe.
    """

    def __init__(
        self,
        seconds: float,
        memory_mb: int,
        allow_weak: bool,
        workers: int | None = None,
        layers: Sequence[str] = LAYERS,
        model: CachedModel | None = None,
        service: type[Service] | None = None,
    ) -> None:
        require_linux()
        count = workers or len(os.sched_getaffinity(0))
        self._model = model
        settings = (seconds, memory_mb, layers)
        self._clients = [ZygoteClient(*settings, service=service) for _ in range(count)]
        self._rerun_clients = [ZygoteClient(*settings, upward=True, service=service) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="sandbox")
        try:
            self._clients[0].start()
            self.tier: Tier = tier_of(self._clients[0].layers)
            if self.tier == "limits-only" and not allow_weak:
                raise GraftError(
                    f"sandbox: {describe_tier(self._clients[0])}; a program could read files and use the network: run "
                    "on Linux with landlock or seccomp, or accept that with -S sandbox.allow_weak=true"
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def serves(self) -> bool:
        """Whether programs may call operators that need a model."""
        return self._model is not None

    @property
    def pids(self) -> list[int]:
        """Process ids of the running zygotes; each leads a session that contains its children."""
        return [client.pid for client in (*self._clients, *self._rerun_clients) if client.pid is not None]

    def close(self) -> None:
        """End all processes. Safe to call twice."""
        self._threads.shutdown(cancel_futures=True)
        for client in (*self._clients, *self._rerun_clients):
            client.close()

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """One Result per question of each program, in order. Equal (code, question) pairs run once.

        They run twice if it is not proved that the result is the same in every run (determinism.py); if the results
        differ, the result is an error. Never raises because of a program. Raises GraftError if no zygote can be
        started.
        """
        jobs = dict.fromkeys((program.code, question) for program in programs for question in program.questions)
        results = {job: rejected for job in jobs if (rejected := _reject(job[0])) is not None}
        plain = [job for job in jobs if job not in results and is_plain(job[0])]
        batches = _batches(plain, len(self._clients))
        answers = self._ask_all(protocol.BATCH, [(_pack_batch(batch),) for batch in batches], self._clients)
        for batch, answer in zip(batches, answers, strict=True):
            results.update(_batch_results(batch, *answer))
        single = self._run_with_replies([job for job in jobs if job not in results], self._clients)
        results.update(single)
        results.update(self._run_again(single))
        return [[results[program.code, question] for question in program.questions] for program in programs]

    def ask_service(self, requests: Sequence[tuple[bytes, bytes]], again: bool = False) -> list[ResultBytes]:
        """The service's (kind, payload) for each pair: what it is asked, and what goes past the zygote to its child.

        `again`: in other zygotes than without. A zygote that dies is tried once more; then the kind is DIED.
        """
        return self._ask_all(protocol.SERVICE, requests, self._rerun_clients if again else self._clients)

    def _run_again(self, results: dict[Job, Result]) -> dict[Job, Result]:
        """Results of the programs that might not be deterministic, after a second run in another zygote.

        A timeout stands: where a program is out of time, the machine has a say.
        """
        known = ("failed", "timeout")
        doubtful = [job for job, result in results.items() if result.status not in known and may_differ(job[0])]
        second = self._run_with_replies(doubtful, self._rerun_clients)
        return {job: compare_runs(results[job], result) for job, result in second.items()}

    def _run_with_replies(self, jobs: list[Job], clients: Sequence[ZygoteClient]) -> dict[Job, Result]:
        """Run each program in a child of its own, and again with all replies so far until it calls no model."""
        results: dict[Job, Result] = {}
        replays = {job: PromptReplay() for job in jobs}
        while replays:
            requests = [
                (protocol.pack_program(*job, replay.replies, not may_differ(job[0])),)
                for job, replay in replays.items()
            ]
            prompts: dict[Job, Prompt] = {}
            answers = self._ask_all(protocol.PROGRAM, requests, clients)
            for (job, replay), answer in zip(replays.items(), answers, strict=True):
                ending = _result(*answer)
                if isinstance(ending, Result):
                    results[job] = replay.counted(ending)
                else:
                    prompts[job] = replay.prompt(ending)
            replays = {job: replays[job] for job in prompts}
            replies = reply_to_all([(prompt, replays[job]) for job, prompt in prompts.items()], self._model)
            for (job, prompt), reply in zip(prompts.items(), replies, strict=True):
                if isinstance(reply, Result):
                    results[job] = replays.pop(job).counted(reply)
                else:
                    replays[job].append(prompt, reply)
        return results

    def _ask_all(self, kind: bytes, requests: Sequence[Payloads], clients: Sequence[ZygoteClient]) -> list[ResultBytes]:
        """The answer to each request. All `clients` take requests from one queue."""
        queue = deque(enumerate(requests))
        if len(requests) <= 1:
            return [answer for _, answer in _drain(clients[0], kind, queue)]
        futures = [self._threads.submit(_drain, client, kind, queue) for client in clients[: len(requests)]]
        try:
            answers = [answer for future in futures for answer in future.result()]
        finally:
            queue.clear()  # after an interrupt or a failed start, the other threads stop at their current request
        return [answer for _, answer in sorted(answers)]


def make_sandbox(
    params: SandboxParams, model: CachedModel | None = None, service: type[Service] | None = None
) -> Sandbox:
    """A sandbox with the settings of `params.yaml`."""
    return Sandbox(params.seconds, params.memory_mb, params.allow_weak, model=model, service=service)


def probe_tier() -> tuple[Tier, str]:
    """The protection that this machine offers, tested in a zygote, and the reason in words."""
    client = ZygoteClient(1.0, 256, LAYERS)
    try:
        client.start()
        return tier_of(client.layers), describe_tier(client)
    finally:
        client.close()


def tier_of(layers: Sequence[str]) -> Tier:
    """full: landlock and seccomp are enforced; partial: one of them; limits-only: none."""
    if {"landlock", "seccomp"} <= set(layers):
        return "full"
    return "partial" if set(BARRIERS) & set(layers) else "limits-only"


def describe_tier(client: ZygoteClient) -> str:
    """The enforced layers, and the reason for each missing one."""
    held = " and ".join(layer for layer in BARRIERS if layer in client.layers) or "resource limits alone"
    missing = [
        f"no {name}: {client.reasons[name]}" for name in (*BARRIERS, "memory", "clock") if name in client.reasons
    ]
    return "; ".join([f"programs are held by {held}", *missing])


def compare_runs(first: Result, second: Result) -> Result:
    """The first result, or an error if the second run had another one, be it 3.0 instead of 3."""
    differs = second.status != "failed" and second.model_dump_json() != first.model_dump_json()
    return Result(status="error", error=NOT_DETERMINISTIC) if differs else first


def _drain(client: ZygoteClient, kind: bytes, queue: deque[tuple[int, Payloads]]) -> list[tuple[int, ResultBytes]]:
    """Send requests to one client until the queue is empty: their places, with the answers."""
    answers: list[tuple[int, ResultBytes]] = []
    while True:
        try:
            place, request = queue.popleft()
        except IndexError:
            return answers
        answers.append((place, _ask(client, kind, *request)))


def _ask(client: ZygoteClient, kind: bytes, *payloads: bytes) -> ResultBytes:
    """The zygote's answer. If a single program kills the zygote, it is tried once more; a batch is not."""
    for _ in range(1 if kind == protocol.BATCH else 2):
        try:
            return client.ask(kind, *payloads)
        except ZygoteDied:
            continue
    return protocol.DIED, b""


def _group_by_code(batch: list[Job]) -> list[tuple[str, list[str]]]:
    """The questions of each code, so that each program is compiled once."""
    groups: dict[str, list[str]] = {}
    for code, question in batch:
        groups.setdefault(code, []).append(question)
    return list(groups.items())


def _pack_batch(batch: list[Job]) -> bytes:
    """Payload of a BATCH: its programs, then the known one."""
    code, question, _ = _KNOWN
    return json.dumps([*_group_by_code(batch), (code, [question])]).encode()


def _batches(jobs: list[Job], workers: int) -> list[list[Job]]:
    """Batches of at most BATCH jobs, smaller if that keeps all workers busy; equal codes are adjacent."""
    if not jobs:
        return []
    grouped = [(code, question) for code, questions in _group_by_code(jobs) for question in questions]
    size = min(BATCH, max(8, math.ceil(len(grouped) / workers)))
    return [grouped[start : start + size] for start in range(0, len(grouped), size)]


def _reject(code: str) -> Result | None:
    """The result of source that is never run; None for all other source."""
    if len(code.encode("utf-8", "replace")) > MAX_SOURCE:
        return error_result(f"source: over {MAX_SOURCE} bytes")
    if not is_unicode(code):
        return error_result("source: not Unicode text")
    return None


def _batch_results(batch: list[Job], kind: bytes, payload: bytes) -> dict[Job, Result]:
    """Results of a batch, without those that need a child of their own: all of them if the batch failed, or if the
    known program at its end did not end as it must."""
    if kind != protocol.ENDINGS:
        return {}
    try:
        *endings, last = json.loads(payload)
        if last != _KNOWN[2]:
            return {}
        results = list(zip(batch, map(_validate, endings), strict=True))
    except (ValueError, TypeError, RecursionError):
        return {}
    return {job: result for job, result in results if result.status in ("ok", "error")}


def _result(kind: bytes, payload: bytes) -> Result | ModelCall:
    """The result of one program, or its call of a model, from the untrusted bytes that its child wrote."""
    if kind == protocol.DIED:
        return Result(status="failed", error=SANDBOX_DIED)
    if kind == protocol.TIMEOUT:
        return Result(status="timeout", error="out of time")
    if kind != protocol.ENDINGS:
        return Result(status="killed", error=clean_error(payload.decode("utf-8", "replace")))
    try:
        match json.loads(payload):
            case ["ask", str(operator), str(prompt)] if operator in MODEL_OPERATORS and is_valid_prompt(prompt):
                return operator, prompt
            case ending:
                return _validate(ending)
    except (ValueError, RecursionError):
        return Result(status="killed", error="ended without a result")


def _validate(ending: Any) -> Result:
    """A plain, bounded Result from whatever a child sent. Raises ValueError if it is not an ending."""
    match ending:
        case ["ok", value, None]:
            status, value, error = value_ending(value)
            return Result(status="ok", value=value) if status == "ok" else Result(status="error", error=error)
        case ["memory", None, _]:
            return Result(status="memory", error="MemoryError")
        case ["error", None, str(error)]:
            return Result(status="error", error=clean_error(error))
    raise ValueError("not an ending")
