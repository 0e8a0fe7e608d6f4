"""The host's end of one zygote: start it, send requests, detect its death, restart it, end it."""

import contextlib
import ctypes
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.errors import GraftError
from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.children import Service

_SOURCES = Path(__file__).parents[3]  # the folder of the package `tasks`
_START_SECONDS = 60.0
_START_ATTEMPTS = 5  # a process killed from outside is no reason to give up
_GRACE_SECONDS = 10.0
_LARGEST = 1 << 25  # bytes of an answer

# No user site, no site, no current folder, no bytecode, no warnings: as -I (with -S -B), except that -I would ignore
# PYTHONHASHSEED, by which sets of texts have the same order in every run. LD_BIND_NOW lets the loader resolve symbols
# when the zygote starts instead of in every child.
_FLAGS = ("-s", "-P", "-S", "-B", "-Wignore")
_ENVIRONMENT = {
    **{"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "LC_ALL": "C", "TZ": "UTC", "LD_BIND_NOW": "1"},
    "GLIBC_TUNABLES": "glibc.pthread.rseq=0",  # otherwise the kernel writes into memory which processor this is
}

# A program finds the folders of Python and of Graft in modules, tracebacks, `sys.prefix` and more. They have the same
# names on every machine: links of the kernel to the zygote's current folder and to a descriptor. In the second run of a
# program the same links have other names, so that an answer with such a name is found out.
_LINKS = ("/proc/self", "/proc/thread-self")
_START = """
import os, sys
given = int(sys.argv.pop())
if given != 3:
    os.dup2(given, 3)
    os.close(given)
del given
sys.path.append(f"{os.path.dirname(sys.prefix)}/fd/3")
from tasks.programs.sandbox import surroundings
surroundings.use_python_datetime()  # before the operators import it
from tasks.programs.sandbox.zygote import main
main()
"""
_ADDR_NO_RANDOMIZE, _ADDR_COMPAT_LAYOUT, _ASK = 0x0040000, 0x0200000, 0xFFFFFFFF  # linux/personality.h


def require_linux() -> None:
    """Raise GraftError on other systems, which have neither landlock nor seccomp, and where /proc is missing."""
    if sys.platform != "linux":
        raise GraftError(f"sandbox: runs on Linux only, not on {sys.platform}; use a Linux machine or container")
    if not Path("/proc/self").exists():
        raise GraftError("sandbox: there is no /proc, by which it finds Python; run mount -t proc proc /proc")


@contextlib.contextmanager
def fixed_layout(upward: bool) -> Iterator[None]:
    """Let the kernel give processes that this thread starts one of two memory layouts, which are the same each time.

    Where it may not be asked for that, as in some containers, layouts are random.
    """
    libc = ctypes.CDLL(None)
    before = libc.personality(_ASK)
    libc.personality(before | _ADDR_NO_RANDOMIZE | (_ADDR_COMPAT_LAYOUT if upward else 0))
    try:
        yield
    finally:
        libc.personality(before)


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    """A descriptor of a folder, by which it can be found but not read."""
    descriptor = os.open(folder, os.O_PATH)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class ZygoteDied(Exception):
    """The zygote has died, or did not answer and was killed."""


class ZygoteClient:
    """One zygote, started at the first request. Not thread-safe.

    `upward`: addresses of its memory grow. They are other ones than by default, where they fall. `service`: a class
    that the zygote imports from the folder of these sources.
    """

    def __init__(
        self,
        seconds: float,
        memory_mb: int,
        layers: Sequence[str],
        upward: bool = False,
        service: type[Service] | None = None,
    ) -> None:
        self._seconds = seconds
        self._upward = upward
        self._service = service
        named = f"{service.__module__}:{service.__qualname__}" if service else None
        self._settings = {"seconds": seconds, "memory_mb": memory_mb, "layers": list(layers), "service": named}
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._direct: socket.socket | None = None  # to the children of its service
        self.layers: list[str] = []
        self.reasons: dict[str, str] = {}

    @property
    def pid(self) -> int | None:
        """Process id of the zygote, which is also its session; None before the first request."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the zygote unless it is running. Raises GraftError if it cannot start."""
        require_linux()
        for _ in range(_START_ATTEMPTS):
            if self._process is not None:
                return
            with contextlib.suppress(ZygoteDied):
                self._start()
        if self._process is None:
            imported = "tasks.programs.sandbox.zygote" + (f", {self._service.__module__}" if self._service else "")
            command = shlex.join([sys.executable, *_FLAGS, "-c", f"import {imported}"])
            shown = f"cd {shlex.quote(str(_SOURCES))} && PYTHONPATH=. {command}"
            raise GraftError(f"sandbox: its process does not start; see what this prints: {shown}")

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        direct, their_direct = socket.socketpair()
        links = _LINKS[self._upward]
        python = os.path.relpath(os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix))
        with theirs, their_direct, fixed_layout(self._upward), _open_folder(_SOURCES) as sources:
            self._process = subprocess.Popen(
                ["python", *_FLAGS, "-c", _START, f"{sources:09}"],
                executable=f"{links}/cwd/{python}",
                pass_fds=(sources,),
                stdin=theirs.fileno(),
                stdout=their_direct.fileno(),
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT | {"PYTHONHOME": f"{links}/cwd"},
                cwd=sys.base_prefix,
                start_new_session=True,
            )
        self._socket, self._direct = ours, direct
        settings = protocol.pack(protocol.SETTINGS, json.dumps(self._settings).encode())
        kind, payload = self._exchange(settings, _START_SECONDS)
        assert kind == protocol.HELLO
        hello = json.loads(payload)
        self.layers, self.reasons = hello["layers"], hello["reasons"]

    def ask(self, kind: bytes, payload: bytes, past: bytes = b"") -> tuple[bytes, bytes]:
        """Send one request and return the answer. `past` goes to a child of the zygote's service, past the zygote.

        The zygote is started or restarted if it is not running. Raises ZygoteDied if it dies during the request or
        takes far longer than a program's limit.
        """
        self.start()
        return self._exchange(protocol.pack(kind, payload), self._seconds + _GRACE_SECONDS, past)

    def close(self, patience: float = 2.0) -> None:
        """End the zygote, after `patience` seconds by force, and its children. A later request starts a new one."""
        for end in filter(None, (self._socket, self._direct)):
            end.close()  # the zygote ends its children and itself
        self._socket = self._direct = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _exchange(self, message: bytes, patience: float, past: bytes = b"") -> tuple[bytes, bytes]:
        assert self._socket is not None
        deadline = time.monotonic() + patience
        try:
            self._socket.settimeout(patience)
            self._socket.sendall(message)
            if past and self._direct:
                self._direct.settimeout(patience)
                self._direct.sendall(past)
            kind, length = protocol.unpack_head(self._receive(protocol.HEAD_SIZE, deadline))
            if length > _LARGEST:
                raise ConnectionError(f"{length} bytes announced")
            return kind, self._receive(length, deadline)
        except OSError as error:  # closed, reset, out of time
            self.close(patience=0)
            raise ZygoteDied(str(error)) from None
        except BaseException:  # interrupted before the answer: it would be read as that of the next request
            self.close(patience=0)
            raise

    def _receive(self, size: int, deadline: float) -> bytes:
        assert self._socket is not None
        parts = []
        while size:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionError("the zygote closed the socket")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
