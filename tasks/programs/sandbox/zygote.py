"""The zygote: a small Python process that has everything loaded and forks a locked child for each program.

The host runs this file in a fresh interpreter (see worker.py) and talks to it over one socket, which is its standard
input. It never runs a program itself. Two kinds of children do:

- for a PROGRAM, a child that runs this one program on this one question and ends;
- for BATCHes of plain programs (allowed.py), a warm worker that lives on. It dies with the first batch that fails;
  the host then runs that batch program by program.
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
)  # where the package `tasks` lies, after the standard library

from tasks.programs.operators.model_calls import Conversation, set_conversation  # noqa: E402
from tasks.programs.sandbox import protocol  # noqa: E402
from tasks.programs.sandbox.lockdown import Lockdown, Step, apply_steps  # noqa: E402
from tasks.programs.sandbox.memory_use import resident_bytes  # noqa: E402
from tasks.programs.sandbox.run_program import Ending, compile_program, ending_json, error_ending, guarded, run_program  # noqa: E402

# What a program may import. Loaded here because a locked child can open no file. `time` has no side effect but waiting.
# fmt: off
MODULES = (
    "array", "bisect", "calendar", "cmath", "collections", "collections.abc", "copy", "dataclasses", "datetime",
    "decimal", "enum", "fractions", "functools", "heapq", "itertools", "json", "math", "numbers", "operator", "random",
    "re", "statistics", "string", "textwrap", "time", "typing", "unicodedata",
)
_LAZY = ("_strptime", "locale", "encodings.ascii", "encodings.latin_1", "encodings.utf_8", "encodings.idna")
# fmt: on

_RESULTS, _REQUESTS = 3, 4  # a child's own descriptors; 0, 1 and 2 are /dev/null
_CAP = 1 << 16  # bytes of one program's ending
_BATCH_CAP = 1 << 24  # bytes of a batch's endings
_PR_SET_CHILD_SUBREAPER = 36
_QUEUE_SECONDS = 5.0  # longest wait for a processor that a program does not pay for; below the host's patience
_TICK_SECONDS = 0.02  # the kernel's books are brought up to date more often than that
_LOOK_SECONDS = 0.005  # between two looks at the memory of a child that nothing limits
_BATCH_SECONDS = 1.0  # longest batch; plain programs take a fraction of a millisecond each


fork: Callable[[], int] = getattr(ctypes.PyDLL(None), "_Fork", os.fork)
"""The C library's bare fork where it has one. Python's own then mends locks, threads and signal handlers, which costs
each child a dozen pages; the zygote has one thread and no handlers."""


class HostIsGone(Exception):
    """The host closed the socket or died."""


class Zygote:
    """Serves one host until it is gone."""

    def __init__(self, control: int, settings: dict[str, object]) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLHUP)  # Linux reports it unasked, macOS does not
        self._seconds = float(str(settings["seconds"]))
        layers = settings["layers"]
        assert isinstance(layers, list)
        memory_mb = int(str(settings["memory_mb"]))
        self._lockdown = Lockdown(memory_mb, layers)
        self._watched = math.inf if "memory" in self._lockdown.layers else memory_mb << 20  # bytes that a child may use
        self._program_steps = self._lockdown.steps(math.ceil(self._seconds) + 1, keep=_RESULTS + 1)
        self._worker_steps = self._lockdown.steps(None, keep=_REQUESTS + 1)
        self._reserve = [bytes(4 << 20)]  # address space that a child gives back where its program has used up all
        self._worker: tuple[int, int, int] | None = None  # process id, where its requests go, where endings come from

    def serve(self) -> None:
        """Answer requests, one at a time, until the host is gone."""
        hello = {"layers": self._lockdown.layers, "reasons": self._lockdown.reasons}
        protocol.write_frame(self._control, protocol.HELLO, json.dumps(hello).encode())
        try:
            while True:
                kind, payload = protocol.read_frame(self._control)
                answer = self._run_program(payload) if kind == protocol.PROGRAM else self._run_batch(payload)
                protocol.write_frame(self._control, *answer)
        except (EOFError, HostIsGone, BrokenPipeError, ConnectionResetError):
            self._end_worker()

    def _run_program(self, payload: bytes) -> tuple[bytes, bytes]:
        results, write_end = os.pipe()
        child = _fork({_RESULTS: write_end}, self._program_steps, lambda: _run_one(payload, self._reserve))
        os.close(write_end)
        try:
            return self._collect(child, results, time.monotonic())
        finally:
            os.close(results)

    def _collect(self, child: int, results: int, started: float) -> tuple[bytes, bytes]:
        """What the child wrote until it ended. However this ends, the child and what it started are gone."""
        ending = b""
        deadline = started + self._seconds
        try:
            while len(ending) <= _CAP:
                while not self._readable(results, self._next_look(deadline)):
                    if self._is_too_big(child):
                        return protocol.ENDINGS, _TOO_BIG
                    deadline = self._extended(child, started)
                    if not deadline:
                        return protocol.TIMEOUT, b""
                part = os.read(results, _CAP)
                if not part:
                    break
                ending += part
        finally:
            status, peak = self._end_child(child)
        if peak > self._watched:  # all given back before anybody looked
            return protocol.ENDINGS, _TOO_BIG
        if len(ending) > _CAP:
            return protocol.KILLED, b"wrote too much"
        if ending:
            return protocol.ENDINGS, ending
        if time.monotonic() > started + self._seconds:  # the kernel's processor limit was faster than this process
            return protocol.TIMEOUT, b""
        return protocol.KILLED, _death(status).encode()

    def _extended(self, child: int, started: float) -> float:
        """A child's deadline, which stands still while it waits for a processor; 0 where it has had its time."""
        now = time.monotonic()  # before the looks at the queue, between which this process may have to wait too
        limit = started + self._seconds
        deadline = limit + min(_queued(child), _QUEUE_SECONDS)
        if deadline < now + 0.01 and now < limit + _QUEUE_SECONDS:
            if _starves(child):
                return now + 2 * _TICK_SECONDS
            deadline = limit + min(_queued(child), _QUEUE_SECONDS)  # a wait that has ended meanwhile is booked now
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
        """Kill the child with its group and reap it; the exit status, negative for a signal, and its peak memory."""
        for kill in (os.killpg, os.kill):  # its own group exists once it has come that far, and it may have left it
            try:
                kill(child, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        _, status, usage = os.wait4(child, 0)
        if "seccomp" not in self._lockdown.layers:
            self._end_strays()
        return os.waitstatus_to_exitcode(status), usage.ru_maxrss * _PEAK_UNIT

    def _end_strays(self) -> None:
        """Kill what a child left behind: orphans come to the zygote, which is their subreaper (Linux only)."""
        worker = self._worker[0] if self._worker else None
        for _ in range(1000):
            strays = [process for process in _children() if process != worker]
            if not strays:
                return
            for process in strays:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)

    def _readable(self, descriptor: int, deadline: float) -> bool:
        """Wait for data or the end of a pipe; False at the deadline. Raises HostIsGone."""
        self._poll.register(descriptor, select.POLLIN)
        events = dict(self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
        self._poll.unregister(descriptor)
        if self._control in events:
            raise HostIsGone
        return descriptor in events

    def _next_look(self, deadline: float) -> float:
        """When to stop waiting for a child: at its deadline, or earlier to see how big it is."""
        return deadline if self._watched == math.inf else min(deadline, time.monotonic() + _LOOK_SECONDS)

    def _is_too_big(self, child: int) -> bool:
        return self._watched != math.inf and resident_bytes(child) > self._watched

    def _read_until(self, descriptor: int, size: int, deadline: float) -> bytes:
        """`size` bytes from the worker. Raises EOFError, and TimeoutError at the deadline or where it grows too big."""
        assert self._worker is not None
        parts = b""
        while len(parts) < size:
            if not self._readable(descriptor, self._next_look(deadline)):
                if time.monotonic() < deadline and not self._is_too_big(self._worker[0]):
                    continue
                raise TimeoutError
            part = os.read(descriptor, size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return parts


def _fork(descriptors: dict[int, int], steps: list[Step], work: Callable[[], None]) -> int:
    """Process id of a child that locks itself, does `work` and ends; `descriptors` maps its own to the zygote's."""
    child = fork()
    if child < 0:
        raise OSError("the kernel gives no process")
    if child:
        return child
    try:
        os.setpgid(0, 0)
        for place, descriptor in descriptors.items():
            os.dup2(descriptor, place)
        apply_steps(steps)
        work()
    finally:
        os._exit(1)  # nobody looks: what counts is what was written


def _run_one(payload: bytes, reserve: list[bytes]) -> None:
    """Child: run one program on one question and write how it ended."""
    code, question, replies = protocol.unpack_program(payload)
    set_conversation(Conversation(json.loads(replies) if replies else [], _leave))
    ending = guarded(lambda: run_program(compile_program(code), question))
    try:
        written = ending_json(ending)
    except MemoryError:  # the program has used up all
        reserve.clear()
        written = ending_json(ending)
    protocol.write_all(_RESULTS, written)


def _leave(status: str, operator: str, text: str) -> NoReturn:
    """Child: end in the middle of a program, with nothing that it could catch."""
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
    """One compilation for all questions. The host has parsed the program, so that the compiler seldom objects."""
    try:
        program = compile_program(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        return [error_ending(error)] * len(questions)
    return [run_program(program, question) for question in questions]


_TOO_BIG = ending_json(("memory", None, "MemoryError"))
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes; of `ru_maxrss`


def _death(status: int) -> str:
    """Why a child ended without a word."""
    return signal.Signals(-status).name if status < 0 else "ended without a result"


def _queued(process: int) -> float:
    """Seconds that a process could have run and had to wait for a processor; 0 where the kernel does not tell.

    A wait that is not over yet is not among them.
    """
    return _times(process)[1]


def _starves(process: int) -> bool:
    """Whether a process waits for a processor now: it could run and does not, for longer than the kernel's tick."""
    ran = _times(process)[0]
    time.sleep(_TICK_SECONDS)
    try:
        with open(f"/proc/{process}/stat") as line:
            state = line.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state == "R" and _times(process)[0] == ran


def _times(process: int) -> tuple[float, float]:
    """Seconds that a process has run and that it has waited for a processor; 0 where the kernel does not tell."""
    try:
        with open(f"/proc/{process}/schedstat") as times:
            ran, waited, _ = times.read().split()
            return int(ran) / 1e9, int(waited) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0, 0.0


def _children() -> list[int]:
    """Process ids of this process's children; none where there is no /proc."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listing:
            return [int(word) for word in listing.read().split()]
    except FileNotFoundError:
        return []


def _load_modules() -> None:
    """Import all that programs may import, then forget where modules come from: a later import fails at once."""
    register = os.register_at_fork
    os.register_at_fork = lambda **_: None  # or `random` would draw a seed from the kernel in every child
    for name in (*MODULES, *_LAZY):
        importlib.import_module(name)
    os.register_at_fork = register
    sys.modules["random"].seed(0)  # every child starts from here, so that a program draws the same numbers in every run
    sys.path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    sys.meta_path[:] = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter]


def _rehearse() -> None:
    """Run a program of our own a few times, so that no child has to pay for it.

    The compiler and `ast` set themselves up at their first use, and the interpreter rewrites bytecode that it has seen
    eight times: in a child either means copying pages that it shares with the zygote. This halves a child's cost.
    """
    sample = "def solve(problem):\n    n = numbers(problem)\n    return majority([calculate('2 * 3'), n[0] / n[1]])\n"
    payload = protocol.pack_program(sample, "six of 1")
    for _ in range(20):
        apply_steps([])
        _run_one(payload, [])


def _adopt_orphans() -> None:
    """Children of dead children become this process's own, so that it can find and end them (Linux)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _forget_the_machine() -> None:
    """No key and no path that differs from machine to machine lies about for a program to return."""
    os.environ.clear()
    sys.argv[:] = sys.orig_argv[:] = [""]


def _take_control() -> int:
    """The socket to the host, moved out of the way; descriptors 0 to 4 are /dev/null afterwards."""
    control = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 10)
    nothing = os.open(os.devnull, os.O_RDWR)
    for place in range(_REQUESTS + 1):
        os.dup2(nothing, place)
    return control


def main() -> None:
    """Serve the host at standard input."""
    control = _take_control()
    _forget_the_machine()
    _adopt_orphans()
    _load_modules()
    _, settings = protocol.read_frame(control)
    _rehearse()
    zygote = Zygote(control, json.loads(settings))
    gc.collect()
    gc.freeze()  # children share what is loaded, and never look through it for garbage
    zygote.serve()


if __name__ == "__main__":
    main()
