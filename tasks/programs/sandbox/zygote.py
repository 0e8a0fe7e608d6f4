"""The zygote: a small Python process with all modules loaded that forks a locked-down child for each program.

The host runs this file in a fresh interpreter (zygote_client.py) and talks to it over one socket, its standard input.
The zygote never runs a program itself. Two kinds of children do:

- for a PROGRAM, a child that runs one program on one question and exits;
- for BATCHes of plain programs (plain_programs.py), a warm worker that serves many. It dies with the first batch that
  fails; the host then runs the programs of that batch one by one.
"""

import ctypes
import fcntl
import gc
import importlib
import importlib.machinery
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.append(
    os.path.dirname(os.path.dirname(os.path.dirname(_FOLDER)))
)  # the folder of the package `tasks`, after the standard library

from tasks.programs.operators.model_calls import Conversation, set_conversation  # noqa: E402
from tasks.programs.sandbox import protocol  # noqa: E402
from tasks.programs.sandbox.candidate import serve_calls  # noqa: E402
from tasks.programs.sandbox.lockdown import Lockdown, Step, apply_steps  # noqa: E402
from tasks.programs.sandbox.memory_use import resident_bytes  # noqa: E402
from tasks.programs.sandbox.run_program import Ending, compile_program, ending_json, error_ending, guarded, run_program  # noqa: E402
from tasks.programs.sandbox.scheduler_times import TICK_SECONDS, is_starved, seconds_queued  # noqa: E402
from tasks.programs.sandbox.tester import run_tests  # noqa: E402

# The modules that a program may import, loaded here because a child can open no file. `time` can only wait.
# fmt: off
MODULES = (
    "array", "bisect", "calendar", "cmath", "collections", "collections.abc", "copy", "dataclasses", "datetime",
    "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers",
    "operator", "random", "re", "statistics", "string", "textwrap", "time", "typing", "unicodedata",
)
_LAZY = ("_strptime", "locale", "encodings.ascii", "encodings.latin_1", "encodings.utf_8", "encodings.idna")
# fmt: on

_RESULTS, _REQUESTS, _CALLS, _SOURCE = 3, 4, 5, 6  # a child's own descriptors; 0, 1 and 2 are /dev/null
_CAP = 1 << 16  # bytes of one program's ending
_BATCH_CAP = 1 << 24  # bytes of a batch's endings
_PR_SET_CHILD_SUBREAPER = 36
_QUEUE_SECONDS = 5.0  # longest wait for a processor that does not count as running time; below the host's timeout
_READ_SECONDS = 5.0  # longest reading of tests
_MEMORY_CHECK_SECONDS = 0.005  # between two checks of a child's memory where the kernel enforces no limit
_BATCH_SECONDS = 1.0  # longest batch; plain programs take a fraction of a millisecond each


fork: Callable[[], int] = getattr(ctypes.PyDLL(None), "_Fork", os.fork)
"""The C library's bare fork if available. Python's own then reinitialises locks, threads and signal handlers, a dozen
copied pages per child; the zygote has one thread and no handlers."""


class HostClosed(Exception):
    """The host closed the socket or died."""


class Zygote:
    """Serves one host until it closes the socket."""

    def __init__(self, control: int, settings: dict[str, object]) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLHUP)
        self._seconds = float(str(settings["seconds"]))
        layers = settings["layers"]
        assert isinstance(layers, list)
        memory_mb = int(str(settings["memory_mb"]))
        self._lockdown = Lockdown(memory_mb, layers)
        self._max_resident = math.inf if "memory" in self._lockdown.layers else memory_mb << 20  # bytes per child
        self._program_steps = self._lockdown.steps(math.ceil(self._seconds) + 1, keep=_RESULTS + 1)
        self._candidate_steps = self._lockdown.steps(math.ceil(self._seconds) + 1, keep=_REQUESTS + 1)
        self._tester_steps = self._lockdown.steps(math.ceil(self._seconds) + 1, keep=_SOURCE + 1)
        self._worker_steps = self._lockdown.steps(None, keep=_REQUESTS + 1)
        self._reserve = [bytes(4 << 20)]  # address space that a child frees if its program has used up all
        self._worker: tuple[int, int, int] | None = None  # process id, pipe for requests, pipe for endings

    def serve(self) -> None:
        """Answer requests, one at a time, until the host closes the socket."""
        hello = {"layers": self._lockdown.layers, "reasons": self._lockdown.reasons}
        protocol.write_frame(self._control, protocol.HELLO, json.dumps(hello).encode())
        try:
            while True:
                kind, payload = protocol.read_frame(self._control)
                run = {protocol.PROGRAM: self._run_program, protocol.TESTS: self._run_tests}.get(kind, self._run_batch)
                protocol.write_frame(self._control, *run(payload))
        except (EOFError, HostClosed, BrokenPipeError, ConnectionResetError):
            self._end_worker()

    def _run_program(self, payload: bytes) -> tuple[bytes, bytes]:
        results, write_end = os.pipe()
        child = _fork({_RESULTS: write_end}, self._program_steps, lambda: _run_one(payload, self._reserve))
        os.close(write_end)
        try:
            return self._collect(child, results, time.monotonic())
        finally:
            os.close(results)

    def _run_tests(self, payload: bytes) -> tuple[bytes, bytes]:
        """Run a program and its tests in two children. The limits are the program's, the verdicts the tests'."""
        calls_end, calls = os.pipe()
        replies, replies_end = os.pipe()
        results, results_end = os.pipe()
        own = {_RESULTS: results_end, _REQUESTS: replies, _CALLS: calls, _SOURCE: self._control}
        tester = _fork(own, self._tester_steps, lambda: run_tests(_SOURCE, _CALLS, _REQUESTS, _RESULTS))
        for descriptor in (results_end, replies, calls):
            os.close(descriptor)
        try:
            if not self._readable(results, time.monotonic() + _READ_SECONDS) or os.read(results, 1) != protocol.READ:
                raise HostClosed  # the tests may still be in the socket, where the next request is expected
            own = {_RESULTS: replies_end, _REQUESTS: calls_end}
            candidate = _fork(own, self._candidate_steps, lambda: serve_calls(payload, _REQUESTS, _RESULTS))
            os.close(calls_end)
            os.close(replies_end)
            return self._collect(candidate, results, time.monotonic())
        finally:
            self._end_child(tester)
            os.close(results)

    def _collect(self, child: int, results: int, started: float) -> tuple[bytes, bytes]:
        """What the child wrote until it ended. In any case the child and its descendants are dead on return."""
        ending = b""
        deadline = started + self._seconds
        try:
            while len(ending) <= _CAP:
                while not self._readable(results, self._next_check(deadline)):
                    if self._is_too_big(child):
                        return protocol.ENDINGS, _TOO_BIG
                    deadline = self._extended(child, started)
                    if not deadline:
                        return protocol.TIMEOUT, ending
                part = os.read(results, _CAP)
                if not part:
                    break
                ending += part
        finally:
            status, peak = self._end_child(child)
        if peak > self._max_resident:  # allocated and freed between two checks
            return protocol.ENDINGS, _TOO_BIG
        if len(ending) > _CAP:
            return protocol.KILLED, b"wrote too much"
        if ending:
            return protocol.ENDINGS, ending
        if time.monotonic() > started + self._seconds:  # the kernel's processor limit came first
            return protocol.TIMEOUT, b""
        return protocol.KILLED, _death_reason(status).encode()

    def _extended(self, child: int, started: float) -> float:
        """A child's deadline, extended by the time it waited for a processor; 0 if its time is over."""
        now = time.monotonic()  # before reading the scheduler's times, as this process may have to wait in between
        limit = started + self._seconds
        deadline = limit + min(seconds_queued(child), _QUEUE_SECONDS)
        if deadline < now + 0.01 and now < limit + _QUEUE_SECONDS:
            if is_starved(child):
                return now + 2 * TICK_SECONDS
            deadline = limit + min(seconds_queued(child), _QUEUE_SECONDS)  # a wait that has just ended is included
        return deadline if deadline > now + 0.01 else 0.0

    def _run_batch(self, payload: bytes) -> tuple[bytes, bytes]:
        if self._worker is None:
            self._worker = self._start_worker()
        _, requests, endings = self._worker
        deadline = time.monotonic() + min(self._seconds, _BATCH_SECONDS)
        try:
            protocol.write_frame(requests, protocol.BATCH, payload)
            head = self._read_until(endings, protocol.HEAD_SIZE, deadline)
            kind, length = protocol.unpack_head(head)
            if kind != protocol.ENDINGS or length > _BATCH_CAP:
                raise EOFError
            return protocol.ENDINGS, self._read_until(endings, length, deadline)
        except (EOFError, BrokenPipeError, TimeoutError):
            self._end_worker()
            return protocol.KILLED, b"batch"

    def _start_worker(self) -> tuple[int, int, int]:
        requests_end, requests = os.pipe()
        endings, endings_end = os.pipe()
        child = _fork({_RESULTS: endings_end, _REQUESTS: requests_end}, self._worker_steps, _serve_batches)
        os.close(requests_end)
        os.close(endings_end)
        return child, requests, endings

    def _end_worker(self) -> None:
        if self._worker:
            child, requests, endings = self._worker
            self._worker = None
            self._end_child(child)
            os.close(requests)
            os.close(endings)

    def _end_child(self, child: int) -> tuple[int, int]:
        """Kill the child and its group, and reap it: exit status, negative for a signal, and peak memory."""
        for kill in (os.killpg, os.kill):  # its group may not exist yet, or it may have left it
            try:
                kill(child, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        _, status, usage = os.wait4(child, 0)
        if "seccomp" not in self._lockdown.layers:
            self._kill_orphans()
        return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024

    def _kill_orphans(self) -> None:
        """Kill the descendants that a child left behind: the zygote is their subreaper."""
        worker = self._worker[0] if self._worker else None
        for _ in range(1000):
            orphans = [process for process in _children() if process != worker]
            if not orphans:
                return
            for process in orphans:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)

    def _readable(self, descriptor: int, deadline: float) -> bool:
        """Wait for data or the end of a pipe; False at the deadline. Raises HostClosed."""
        self._poll.register(descriptor, select.POLLIN)
        events = dict(self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
        self._poll.unregister(descriptor)
        if self._control in events:
            raise HostClosed
        return descriptor in events

    def _next_check(self, deadline: float) -> float:
        """When to stop waiting for a child: at its deadline, or earlier to check its memory."""
        return deadline if self._max_resident == math.inf else min(deadline, time.monotonic() + _MEMORY_CHECK_SECONDS)

    def _is_too_big(self, child: int) -> bool:
        return self._max_resident != math.inf and resident_bytes(child) > self._max_resident

    def _read_until(self, descriptor: int, size: int, deadline: float) -> bytes:
        """`size` bytes from the worker. Raises EOFError; TimeoutError at the deadline or if it is too big."""
        assert self._worker is not None
        parts = b""
        while len(parts) < size:
            if not self._readable(descriptor, self._next_check(deadline)):
                if time.monotonic() < deadline and not self._is_too_big(self._worker[0]):
                    continue
                raise TimeoutError
            part = os.read(descriptor, size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return parts


def _fork(descriptors: dict[int, int], steps: list[Step], work: Callable[[], None]) -> int:
    """Process id of a child that locks itself down, calls `work` and exits; `descriptors`: its own → the zygote's."""
    child = fork()
    if child < 0:
        raise OSError("the kernel creates no process")
    if child:
        return child
    try:
        os.setpgid(0, 0)
        for place, descriptor in descriptors.items():
            os.dup2(descriptor, place)
        apply_steps(steps)
        work()
    finally:
        os._exit(1)  # the status is not read, only what was written


def _run_one(payload: bytes, reserve: list[bytes]) -> None:
    """Child: run one program on one question and write how it ended."""
    code, question, replies = protocol.unpack_program(payload)
    set_conversation(Conversation(json.loads(replies) if replies else [], _exit_with))
    ending = guarded(lambda: run_program(compile_program(code), question))
    try:
        written = ending_json(ending)
    except MemoryError:  # the program has used up the address space
        reserve.clear()
        written = ending_json(ending)
    protocol.write_all(_RESULTS, written)


def _exit_with(status: str, operator: str, text: str) -> NoReturn:
    """Child: exit in the middle of a program, without an exception that it could catch."""
    ending: Ending = (status, operator, text) if status == "ask" else (status, None, text)
    protocol.write_all(_RESULTS, ending_json(ending))
    os._exit(0)


def _serve_batches() -> None:
    """Worker: run batches until the zygote closes the pipe."""
    while True:
        _, payload = protocol.read_frame(_REQUESTS)
        endings = [ending for code, questions in json.loads(payload) for ending in _run_all(code, questions)]
        protocol.write_frame(_RESULTS, protocol.ENDINGS, json.dumps(endings).encode())


def _run_all(code: str, questions: list[str]) -> list[Ending]:
    """Compile once for all questions. The host has parsed the program, so that compilation rarely fails."""
    try:
        program = compile_program(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        return [error_ending(error)] * len(questions)
    return [run_program(program, question) for question in questions]


_TOO_BIG = ending_json(("memory", None, "MemoryError"))


def _death_reason(status: int) -> str:
    """Why a child ended without a result."""
    return signal.Signals(-status).name if status < 0 else "ended without a result"


def _children() -> list[int]:
    """Process ids of this process's children; none without /proc."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listing:
            return [int(word) for word in listing.read().split()]
    except FileNotFoundError:
        return []


def _load_modules() -> None:
    """Import all modules that programs may import, then clear the import path: a later import fails at once."""
    register = os.register_at_fork
    os.register_at_fork = lambda **_: None  # otherwise `random` draws a new seed in every child
    for name in (*MODULES, *_LAZY):
        importlib.import_module(name)
    os.register_at_fork = register
    sys.modules["random"].seed(0)  # the state of every child: a program draws the same numbers in every run
    sys.path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    sys.meta_path[:] = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter]


def _warm_up() -> None:
    """Run a sample program a few times.

    The compiler and `ast` initialise themselves at their first use, and the interpreter specialises bytecode after
    eight runs: in a child both would copy pages shared with the zygote. This halves a child's cost.
    """
    sample = "def solve(problem):\n    n = numbers(problem)\n    return majority([calculate('2 * 3'), n[0] / n[1]])\n"
    payload = protocol.pack_program(sample, "six of 1")
    for _ in range(20):
        apply_steps([])
        _run_one(payload, [])


def _become_subreaper() -> None:
    """Children of dead children become this process's own, so that it can find and kill them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _clear_environment() -> None:
    """Remove keys and machine-dependent paths from the reach of programs."""
    os.environ.clear()
    sys.argv[:] = sys.orig_argv[:] = [""]


def _take_control() -> int:
    """The socket to the host, moved to a high descriptor; descriptors 0 to 6 are /dev/null afterwards."""
    control = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 10)
    nothing = os.open(os.devnull, os.O_RDWR)
    for place in range(_SOURCE + 1):
        os.dup2(nothing, place)
    return control


def main() -> None:
    """Serve the host on standard input."""
    control = _take_control()
    _clear_environment()
    _become_subreaper()
    _load_modules()
    _, settings = protocol.read_frame(control)
    _warm_up()
    zygote = Zygote(control, json.loads(settings))
    gc.collect()
    gc.freeze()  # children share these objects and never scan them for garbage
    zygote.serve()


if __name__ == "__main__":
    main()
