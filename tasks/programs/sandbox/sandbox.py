"""Run any Python that a model can write: many programs, each on many questions, each answer a bounded plain value.

How it holds: a fresh process (zygote.py), which knows no answers, no keys and no files, forks a child per program and
question; the child locks itself (lockdown.py) before the program's first line. Plain programs (allowed.py) share a
worker that is locked the same way. Operators that a model serves (asking.py) are served by the host: it gets the
prompts, and runs the program again with the replies. The host only compares values (judge.py).
"""

import json
import math
import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from tasks.errors import GraftError
from tasks.params.sections import Sandbox as SandboxParams
from tasks.programs.operators.model import Prompt
from tasks.programs.operators.model_calls import MODEL_OPERATORS, ModelCall, is_valid_prompt
from tasks.programs.operators.reply_cache import CachedModel
from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.determinism import may_differ
from tasks.programs.sandbox.lockdown import LAYERS
from tasks.programs.sandbox.plain_programs import is_plain
from tasks.programs.sandbox.prompt_replay import PromptReplay, error_result, reply_to_all
from tasks.programs.sandbox.run_program import Ending, clean_error, is_unicode, value_ending
from tasks.programs.sandbox.zygote_client import ZygoteClient, ZygoteDied
from tasks.records import Result

Tier = Literal["full", "partial", "limits-only"]

BARRIERS = ("landlock", "seccomp", "seatbelt")
"""Those of LAYERS that keep a program from files and from the network."""

MAX_SOURCE = 20_000
"""Longest program, in bytes of UTF-8."""

SANDBOX_DIED = "the sandbox process died"
"""Error of a `failed` result; any other death is the program's own."""

NOT_DETERMINISTIC = "answers differ when it is run again: a workflow must be deterministic"

BATCH = 64
"""Most (program, question) pairs that a warm worker gets at once."""


@dataclass(frozen=True)
class Program:
    """A workflow and the questions to run it on."""

    code: str
    questions: tuple[str, ...]


Job = tuple[str, str]
"""(code, question)."""

Request = tuple[list[Job], bytes]
"""Jobs, and what the zygote is sent for them."""

Answer = tuple[list[Job], tuple[bytes, bytes]]
"""A request's jobs with the zygote's answer: (kind, payload)."""


class Sandbox:
    """A pool of zygotes: `with Sandbox(2.0, 256, False) as sandbox: sandbox.run([Program(code, (question,))])`.

    `seconds`: limit of one program on one question by the wall clock, which stands still while a busy machine keeps
    the program waiting for a processor (on Linux, for 5 s at most). `memory_mb`: its address space, or the memory that
    it uses where the kernel does not limit that (macOS). `workers`: programs at once, the cores by default. `layers`:
    what to hold programs with, all that there is by default. `served`: what replies to the operators that a model
    serves; None: a program that calls one has an error. Raises GraftError where none of BARRIERS holds, unless
    `allow_weak`.

    The results depend on programs, questions and replies alone: not on workers, order, batches or earlier runs. (But
    for a program that takes about as long as it may.)
    Not for two threads at once.
    """

    def __init__(
        self,
        seconds: float,
        memory_mb: int,
        allow_weak: bool,
        workers: int | None = None,
        layers: Sequence[str] = LAYERS,
        served: CachedModel | None = None,
    ) -> None:
        count = workers or _cores()
        self._served = served
        self._workers = [ZygoteClient(seconds, memory_mb, layers) for _ in range(count)]
        self._others = [
            ZygoteClient(seconds, memory_mb, layers) for _ in range(count)
        ]  # for second runs; start when needed
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="sandbox")
        try:
            self._workers[0].start()
            self.tier: Tier = tier_of(self._workers[0].layers)
            if self.tier == "limits-only" and not allow_weak:
                raise GraftError(
                    f"sandbox: {describe_tier(self._workers[0])}; a program could read files and use the network: run "
                    "on Linux with landlock or seccomp, or accept that with -S sandbox.allow_weak=true"
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error_result: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def serves(self) -> bool:
        """Whether programs have operators that a model serves."""
        return self._served is not None

    @property
    def pids(self) -> list[int]:
        """Process ids of the zygotes that run; each leads a session that holds its children."""
        return [worker.pid for worker in (*self._workers, *self._others) if worker.pid is not None]

    def close(self) -> None:
        """End all processes. Safe to call twice."""
        self._threads.shutdown(cancel_futures=True)
        for worker in (*self._workers, *self._others):
            worker.close()

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """One Result per question of each program, in order. Equal (code, question) pairs run once.

        Twice where a program ends well and its source leaves open whether it would again (repeatable.py); where it
        does not, the result is an error.
        Never raises for what a program does. Raises GraftError where no zygote can be started.
        """
        jobs = dict.fromkeys((program.code, question) for program in programs for question in program.questions)
        results = {job: refused for job in jobs if (refused := _unfit(job[0])) is not None}
        plain = [job for job in jobs if job not in results and is_plain(job[0])]
        batches = [(batch, json.dumps(_by_code(batch)).encode()) for batch in _batches(plain, len(self._workers))]
        for batch, answer in self._ask_all(protocol.BATCH, batches, self._workers):
            results.update(_batch_results(batch, *answer))
        single = self._converse([job for job in jobs if job not in results], self._workers)
        results.update(single)
        results.update(self._run_again(single))
        return [[results[program.code, question] for question in program.questions] for program in programs]

    def _run_again(self, found: dict[Job, Result]) -> dict[Job, Result]:
        """Results of those that ended well and might not do so again, after a second run in another zygote."""
        doubtful = [job for job, result in found.items() if result.status == "ok" and may_differ(job[0])]
        again = self._converse(doubtful, self._others)
        return {job: compare_runs(found[job], result) for job, result in again.items()}

    def _converse(self, jobs: list[Job], workers: Sequence[ZygoteClient]) -> dict[Job, Result]:
        """Each program by itself. Those that ask are run again with all replies so far, until none asks any more."""
        results: dict[Job, Result] = {}
        dialogues = {job: PromptReplay() for job in jobs}
        while dialogues:
            requests = [([job], protocol.pack_program(*job, said.replies)) for job, said in dialogues.items()]
            asked: dict[Job, Prompt] = {}
            for (job,), answer in self._ask_all(protocol.PROGRAM, requests, workers):
                ending = _result(*answer)
                if isinstance(ending, Result):
                    results[job] = ending
                else:
                    asked[job] = dialogues[job].prompt(ending)
            dialogues = {job: dialogue for job, dialogue in dialogues.items() if job in asked}
            replies = reply_to_all([(asked[job], dialogue) for job, dialogue in dialogues.items()], self._served)
            for job, reply in zip(list(dialogues), replies, strict=True):
                if isinstance(reply, Result):
                    results[job] = reply
                    del dialogues[job]
                else:
                    dialogues[job].tell(asked[job], reply)
        return results

    def _ask_all(self, kind: bytes, requests: list[Request], workers: Sequence[ZygoteClient]) -> Iterable[Answer]:
        """Each request with its answer. All `workers` take from one queue."""
        waiting = deque(requests)
        if len(requests) <= 1:
            return _drain(workers[0], kind, waiting)
        lanes = workers[: len(requests)]
        futures = [self._threads.submit(_drain, worker, kind, waiting) for worker in lanes]
        try:
            return [answered for future in futures for answered in future.result()]
        finally:
            waiting.clear()  # interrupted, or a zygote cannot start: the others stop after what they are at


def make_sandbox(params: SandboxParams, served: CachedModel | None = None) -> Sandbox:
    """The sandbox that `params.yaml` asks for."""
    return Sandbox(params.seconds, params.memory_mb, params.allow_weak, served=served)


def probe_tier() -> tuple[Tier, str]:
    """What this machine offers, tried out in a zygote, and the reason in words."""
    worker = ZygoteClient(1.0, 256, LAYERS)
    try:
        worker.start()
        return tier_of(worker.layers), describe_tier(worker)
    finally:
        worker.close()


def tier_of(layers: Sequence[str]) -> Tier:
    """full: landlock and seccomp hold; partial: one of them, or Seatbelt; limits-only: none."""
    if {"landlock", "seccomp"} <= set(layers):
        return "full"
    return "partial" if set(BARRIERS) & set(layers) else "limits-only"


def describe_tier(worker: ZygoteClient) -> str:
    """Which layers hold, and why a missing one does not."""
    held = " and ".join(layer for layer in BARRIERS if layer in worker.layers) or "resource limits alone"
    told = ("seatbelt", "memory") if sys.platform == "darwin" else ("landlock", "seccomp", "memory")
    missing = [f"no {name}: {worker.reasons[name]}" for name in told if name in worker.reasons]
    untested = ["seatbelt has never been tested by Graft's makers"] if "seatbelt" in worker.layers else []
    return "; ".join([f"programs are held by {held}", *missing, *untested])


def compare_runs(first: Result, second: Result) -> Result:
    """The first result, unless the second run came to an end (on a busy machine it may not) and to another one."""
    differs = second.status in ("ok", "error") and second != first
    return Result(status="error", error=NOT_DETERMINISTIC) if differs else first


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _drain(worker: ZygoteClient, kind: bytes, waiting: deque[Request]) -> list[Answer]:
    """Let one worker answer requests until none is left."""
    answered: list[Answer] = []
    while True:
        try:
            jobs, payload = waiting.popleft()
        except IndexError:
            return answered
        answered.append((jobs, _ask(worker, kind, payload)))


def _ask(worker: ZygoteClient, kind: bytes, payload: bytes) -> tuple[bytes, bytes]:
    """The zygote's answer. A zygote that dies over a single program gets it once more; a batch is not repeated."""
    for _ in range(2 if kind == protocol.PROGRAM else 1):
        try:
            return worker.ask(kind, payload)
        except ZygoteDied:
            continue
    return protocol.DIED, b""


def _by_code(batch: list[Job]) -> list[tuple[str, list[str]]]:
    """Questions under their code, so that each program is compiled once. Equal codes stand together in a batch."""
    grouped: dict[str, list[str]] = {}
    for code, question in batch:
        grouped.setdefault(code, []).append(question)
    return list(grouped.items())


def _batches(jobs: list[Job], workers: int) -> list[list[Job]]:
    """Jobs in batches of BATCH, of fewer where that lets all workers take part, equal codes next to each other."""
    if not jobs:
        return []
    grouped = [(code, question) for code, questions in _by_code(jobs) for question in questions]
    size = min(BATCH, max(8, math.ceil(len(grouped) / workers)))
    return [grouped[start : start + size] for start in range(0, len(grouped), size)]


def _unfit(code: str) -> Result | None:
    """The result of source that is not run at all; None for all other."""
    if len(code) > MAX_SOURCE or (not code.isascii() and len(code.encode("utf-8", "replace")) > MAX_SOURCE):
        return error_result(f"source: over {MAX_SOURCE} bytes")
    if not is_unicode(code):
        return error_result("source: not Unicode text")
    return None


def _batch_results(batch: list[Job], kind: bytes, payload: bytes) -> dict[Job, Result]:
    """Results of a batch, less those that must be found program by program: all where the worker failed."""
    if kind != protocol.ENDINGS:
        return {}
    try:
        results = list(zip(batch, map(_checked, json.loads(payload)), strict=True))
    except (ValueError, TypeError, RecursionError):
        return {}
    return {job: result for job, result in results if result.status in ("ok", "error")}


def _result(kind: bytes, payload: bytes) -> Result | ModelCall:
    """The result of one program, or what it asks, out of what its child wrote: untrusted bytes."""
    if kind == protocol.DIED:
        return Result(status="failed", error=SANDBOX_DIED)
    if kind == protocol.TIMEOUT:
        return Result(status="timeout", error="out of time")
    if kind != protocol.ENDINGS:
        return Result(status="killed", error=clean_error(payload.decode("utf-8", "replace")))
    try:
        ending = json.loads(payload)
        match ending:
            case ["ask", str(operator), str(prompt)] if operator in MODEL_OPERATORS and is_valid_prompt(prompt):
                return operator, prompt
        return _checked(ending)
    except (ValueError, RecursionError):
        return Result(status="killed", error="ended without a result")


def _checked(ending: Any) -> Result:
    """A Result that is plain and bounded, whatever a child sent. Raises ValueError for what is no ending at all."""
    match ending:
        case ["ok", value, None]:
            return _of(value_ending(value))
        case ["memory", None, _]:
            return Result(status="memory", error="MemoryError")
        case ["error", None, str(error_result)]:
            return Result(status="error", error=clean_error(error_result))
    raise ValueError("no ending")


def _of(ending: Ending) -> Result:
    status, value, error_result = ending
    return Result(status="ok", value=value) if status == "ok" else Result(status="error", error=error_result)
