"""What a child gives up before it runs a program: its user, memory, files, processes, the kernel's doors.

The zygote prepares once (`Lockdown`), every child calls `apply`. Standard library only.
"""

import ctypes
import errno
import os
import resource
import sys
from collections.abc import Callable, Iterable

from tasks.workflows.landlock import create_ruleset, restrict_self
from tasks.workflows.seccomp import build_filter, load_filter

_NOBODY = 65534
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 1, 38, 9
_DOES_NOT_HOLD = 255
_LINUX = sys.platform.startswith("linux")
_DESCRIPTORS = 256  # the zygote never has as many open

_LIBC = ctypes.CDLL(None, use_errno=True)

Layer = Callable[[], None]
"""Takes something away from this process for good. Raises OSError."""


def prepare_user() -> Layer:
    """A root host's programs run as nobody: process limits do not bind root, and root may signal everyone."""
    if os.geteuid() != 0 or not _LINUX:
        raise OSError(errno.EPERM, "the host is not root on Linux; its programs keep its user")

    def become_nobody() -> None:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)

    return become_nobody


def prepare_landlock() -> Layer:
    """No file, no TCP, no abstract socket."""
    ruleset = create_ruleset()
    return lambda: restrict_self(ruleset)


def prepare_seccomp() -> Layer:
    """No system call but memory, clock, open pipes and exit."""
    allow_list = build_filter()

    return lambda: load_filter(allow_list)


PREPARE: dict[str, Callable[[], Layer]] = {
    "user": prepare_user,
    "landlock": prepare_landlock,
    "seccomp": prepare_seccomp,
}
"""Layers beyond resource limits, in the order in which a child applies them: the last one forbids the others."""


class Lockdown:
    """The layers that hold on this machine, ready to be applied; `reasons` says why a wanted one is missing.

    Each wanted layer is tried in a child of its own, which then looks whether it is really held.
    """

    def __init__(self, memory_mb: int, wanted: Iterable[str]) -> None:
        zero = (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE)
        self._limits = [(name, (0, 0)) for name in zero]
        if _LINUX:  # macOS takes this limit and does not keep it
            self._limits.append((resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20)))
            forbid_new_privileges()
        self._layers: dict[str, Layer] = {}
        self.reasons: dict[str, str] = {}
        for name in [name for name in PREPARE if name in set(wanted)]:
            try:
                layer = PREPARE[name]()
                _try_in_child(name, layer)
                self._layers[name] = layer
            except OSError as error:
                self.reasons[name] = error.strerror or str(error)

    @property
    def layers(self) -> list[str]:
        """Names of the layers that `apply` applies."""
        return list(self._layers)

    def apply(self, cpu_seconds: int | None, parent: int, keep: int) -> None:
        """Lock this process for good and tie its life to its parent's; descriptors from `keep` on are closed.

        Raises OSError where a layer fails or the parent is gone: the caller must then end without running anything.
        """
        for name, layer in self._layers.items():
            if name == "seccomp":
                continue
            layer()
        os.closerange(keep, _DESCRIPTORS)
        for limit in self._limits:
            resource.setrlimit(*limit)
        if cpu_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        if _LINUX:
            _die_with_parent(parent)
        if "seccomp" in self._layers:
            self._layers["seccomp"]()


def forbid_new_privileges() -> None:
    """No set-user-id program can raise this process or its children again; landlock and seccomp ask for it."""
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _die_with_parent(parent: int) -> None:
    """The kernel kills this process when its parent dies. Set after the user has changed, which clears it."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "the parent is gone")


def _try_in_child(name: str, layer: Layer) -> None:
    """Raises OSError unless a child that applied `layer` really is held by it."""
    child = os.fork()
    if child == 0:
        code = _DOES_NOT_HOLD
        try:
            layer()
            code = 0 if _holds(name) else _DOES_NOT_HOLD
        except OSError as error:
            code = error.errno or _DOES_NOT_HOLD
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, _DOES_NOT_HOLD):
        raise OSError(abs(code), os.strerror(abs(code)))
    if code:
        raise OSError(errno.ENOSYS, "the kernel takes it but it does not hold")


def _holds(name: str) -> bool:
    if name == "user":
        return os.getresuid() == (_NOBODY, _NOBODY, _NOBODY)
    try:
        os.close(os.open("/", os.O_RDONLY))
    except OSError as error:
        return error.errno == {"landlock": errno.EACCES, "seccomp": errno.EPERM}[name]
    return False
