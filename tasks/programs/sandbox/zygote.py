"""The zygote: a small Python process with all modules loaded that forks a locked-down child for each program.

The host runs `main` in a fresh interpreter (zygote_client.py) and talks to it over a socket, its standard input.
Another one, its standard output, is for the children of a service (children.py) alone. The zygote never runs a program
itself. Two more kinds of children do:

- for a PROGRAM, a child that runs one program on one question and exits;
- for a BATCH of plain programs (plain_programs.py), a child that runs them all and exits. If it fails, the host runs
  them one by one.

Before the next fork the zygote clears the memory that held a program or an ending: a child inherits all of its memory,
and could read there what the programs before it answered.
"""

import ctypes
import importlib
import importlib.machinery
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from tasks.programs.operators.model_calls import Conversation, set_conversation
from tasks.programs.sandbox import protocol, surroundings
from tasks.programs.sandbox.children import Children, HostClosed, Service, TimeLimit
from tasks.programs.sandbox.lockdown import Lockdown, apply_steps
from tasks.programs.sandbox.modules import MODULES
from tasks.programs.sandbox.run_program import Ending, compile_program, ending_json, error_ending, guarded, run_program

_LAZY = ("_strptime", "locale", "encodings.ascii", "encodings.latin_1", "encodings.utf_8", "encodings.idna")
if sys.version_info >= (3, 12):
    _LAZY += ("_pylong",)  # of long integers from and to decimals

_RESULTS = 3  # a child's own descriptor; 0, 1 and 2 are /dev/null
_LOWEST = 5  # descriptors below are those of children
_SOCKETS = 10  # the first of the two to the host
_CAP = 1 << 16  # bytes of one program's ending
_BATCH_CAP = 1 << 18  # bytes of a batch's endings
_FREE = 1 << 12  # most bytes that serving a request leaves free for objects of one size
_PR_SET_CHILD_SUBREAPER = 36
_BATCH_SECONDS = 1.0  # longest batch; plain programs take a fraction of a millisecond each


class Zygote:
    """Serves one host until it closes the socket."""

    def __init__(
        self, control: int, source: int, settings: Mapping[str, object], service: type[Service] | None
    ) -> None:
        self._control = control
        self._seconds = float(str(settings["seconds"]))
        layers = settings["layers"]
        assert isinstance(layers, list)
        memory_mb = int(str(settings["memory_mb"]))
        self._lockdown = Lockdown(memory_mb, layers)
        enforced = self._lockdown.layers
        max_resident = math.inf if "memory" in enforced else memory_mb << 20  # bytes per child
        self._children = Children(control, max_resident, may_fork="seccomp" not in enforced)
        self._steps = self._lockdown.steps(math.ceil(self._seconds) + 1, keep=_RESULTS + 1)
        self._service = service(self._children, self._lockdown, source, self._seconds) if service else None
        self._reserve = [bytes(4 << 20)]  # address space that a child frees if its program has used up all
        self._request, self._endings = protocol.Buffer(1 << 16), protocol.Buffer(_BATCH_CAP)

    def serve(self) -> None:
        """Answer requests, one at a time, until the host closes the socket."""
        hello = {"layers": self._lockdown.layers, "reasons": self._lockdown.reasons}
        protocol.write_frame(self._control, protocol.HELLO, json.dumps(hello).encode())
        run: dict[bytes, Callable[[memoryview], tuple[bytes, bytes | memoryview]]]
        run = {protocol.PROGRAM: self._run_program, protocol.BATCH: self._run_batch}
        if self._service:
            run[protocol.SERVICE] = self._service.run
        try:
            while True:
                kind, request = self._request.read_frame(self._control)
                answer, payload = run[kind](request)
                protocol.write_buffer(self._control, answer, memoryview(payload))
                self._request.clear()  # the next child is forked with all of this memory
                self._endings.clear()
        except (EOFError, HostClosed, BrokenPipeError, ConnectionResetError):
            if self._service:
                self._service.end()

    def _run_program(self, payload: memoryview) -> tuple[bytes, bytes | memoryview]:
        return self._run_child(lambda: _run_one(payload, self._reserve), self._seconds, _CAP)

    def _run_batch(self, payload: memoryview) -> tuple[bytes, bytes | memoryview]:
        return self._run_child(lambda: _run_all(payload), min(self._seconds, _BATCH_SECONDS), _BATCH_CAP)

    def _run_child(self, work: Callable[[], None], seconds: float, cap: int) -> tuple[bytes, bytes | memoryview]:
        """What a child wrote until it ended, at most `cap` bytes. On return it and its descendants are dead."""
        results, write_end = os.pipe()
        child = self._children.fork({_RESULTS: write_end}, self._steps, work)
        os.close(write_end)
        limit = TimeLimit(seconds, child, new=True)
        try:
            size = -1
            while size:
                while not self._children.readable(results, self._children.next_check(limit.deadline)):
                    if self._children.is_too_big(child):
                        return protocol.ENDINGS, _TOO_BIG
                    if not limit.extend():
                        return protocol.TIMEOUT, b""
                size = self._endings.read(results, cap)
        finally:
            status, was_too_big = self._children.end(child)
            os.close(results)
        if was_too_big:  # allocated and freed between two checks
            return protocol.ENDINGS, _TOO_BIG
        written = self._endings.content
        if len(written) == cap:
            return protocol.KILLED, b"wrote too much"
        if written:
            return protocol.ENDINGS, written
        if limit.is_past:  # the kernel's processor limit came first
            return protocol.TIMEOUT, b""
        return protocol.KILLED, _death_reason(status).encode()


def _run_one(payload: bytes | memoryview, reserve: list[bytes]) -> None:
    """Child: run one program on one question and write how it ended."""
    code, question, replies, is_proved = protocol.unpack_program(payload)
    if not is_proved:
        surroundings.fill_free_memory(_FREE)
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


def _run_all(payload: memoryview) -> None:
    """Child: run a batch and write the endings."""
    endings = [ending for code, questions in json.loads(bytes(payload)) for ending in _run_each(code, questions)]
    protocol.write_all(_RESULTS, json.dumps(endings).encode())


def _run_each(code: str, questions: list[str]) -> list[Ending]:
    """Compile once for all questions. The host has parsed the program, so that compilation rarely fails."""
    try:
        program = compile_program(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        return [error_ending(error)] * len(questions)
    return [run_program(program, question) for question in questions]


_TOO_BIG = ending_json(("memory", None, "MemoryError"))


def _death_reason(status: int) -> str:
    """Why a child ended without a result. A SIGKILL may be the zygote's own, after the child closed the pipe."""
    return signal.Signals(-status).name if status < 0 and -status != signal.SIGKILL else "ended without a result"


def _load_modules() -> None:
    """Import all modules that programs may import, as a child can open no file, then clear the import path: a later
    import fails at once."""
    surroundings.seed_generators()
    surroundings.replace_clocks()
    for name in (*MODULES, *_LAZY):
        importlib.import_module(name)
    surroundings.restart_clocks()
    surroundings.hide_addresses()
    surroundings.hide_machine()
    sys.path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    sys.meta_path[:] = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter]


def _load_service(name: str | None) -> type[Service] | None:
    """The class module:CLASS, imported as the zygote's own modules are: with the real clocks, which limits go by."""
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    service: type[Service] = getattr(importlib.import_module(module), attribute)
    return service


def _warm_up() -> None:
    """Run a sample program a few times.

    The compiler and `ast` initialise themselves at their first use, and the interpreter specialises bytecode after
    eight runs: in a child both would copy pages shared with the zygote. This halves a child's cost.
    """
    sample = "def solve(problem):\n    n = numbers(problem)\n    return majority([calculate('2 * 3'), n[0] / n[1]])\n"
    payload = protocol.pack_program(sample, "six of 1", is_proved=True)
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


def _take_sockets() -> tuple[int, int]:
    """The two sockets to the host, moved to high descriptors; descriptors 0 to 4 are /dev/null afterwards."""
    control, source = (os.dup2(place, _SOCKETS + place, inheritable=False) for place in (0, 1))
    nothing = os.open(os.devnull, os.O_RDWR)
    for place in range(_LOWEST):
        os.dup2(nothing, place)
    return control, source


def main() -> None:
    """Serve the host on standard input."""
    settings = json.loads(protocol.read_frame(0)[1])
    # In this order: the service is imported while the folder of these sources is open and clocks are real; free memory
    # is filled last, as each step before it leaves gaps in which a program's objects would lie elsewhere each time.
    service = _load_service(settings["service"])
    control, source = _take_sockets()
    _clear_environment()
    _become_subreaper()
    _load_modules()
    os.chdir("/")
    _warm_up()
    zygote = Zygote(control, source, settings, service)
    surroundings.fill_free_memory()
    zygote.serve()
