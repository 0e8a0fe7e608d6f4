"""What a child gives up before it runs a program: its user, memory, files, processes, the kernel's doors.

The zygote prepares once (`Lockdown`), every child takes the steps. Standard library only.

On macOS, where nobody has run this yet: Seatbelt stands in for landlock and seccomp; nothing limits the address space,
so that the zygote watches how much memory a child uses; and no child is told of the zygote's death, so that an alarm
ends one that the zygote no longer can. (Limits on processes are this process's own there too: 0 forbids it to fork,
whatever else its user runs.)
"""

import ctypes
import errno
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial

from tasks.programs.sandbox.landlock import create_ruleset, restrict_step
from tasks.programs.sandbox.seatbelt import confinement
from tasks.programs.sandbox.seccomp import build_filter, load_step

_NOBODY = 65534
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 1, 38, 9
_DOES_NOT_HOLD = 255
_LINUX = sys.platform.startswith("linux")
_DESCRIPTORS = 256  # the zygote never has as many open

_LIBC = ctypes.CDLL(None, use_errno=True)

Step = Callable[[], object]
"""Takes something away from this process for good. Raises OSError or returns something true where it fails.

Made in the zygote, down to the arguments in C's own types, so that a child has next to nothing to do: each page that
a child writes to, if only to count a reference, is a page to copy.
"""


def prepare_user() -> list[Step]:
    """A root host's programs run as nobody: process limits do not bind root, and root may signal everyone."""
    if os.geteuid() != 0:
        raise OSError(errno.EPERM, "the host is not root; its programs keep its user")
    return [  # of root these set the saved ids too
        partial(os.setgroups, ()),
        partial(os.setgid, _NOBODY),
        partial(os.setuid, _NOBODY),
    ]


def prepare_landlock() -> list[Step]:
    """No file, no TCP, no abstract socket. (Modes and times of this user's own files are beyond it.)"""
    return [restrict_step(create_ruleset())]


def prepare_seatbelt() -> list[Step]:
    """macOS: no file, no network, no other process."""
    return [confinement()]


def prepare_memory(limit: int) -> list[Step]:
    """No more than `limit` bytes of address space."""
    if sys.platform == "darwin":
        raise OSError("macOS takes this limit and does not keep it; the memory in use is watched")
    return [partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit))]


def prepare_seccomp() -> list[Step]:
    """No system call but memory, clock, open pipes and exit."""
    return [load_step(build_filter())]


def preparations(memory_limit: int) -> dict[str, Callable[[], list[Step]]]:
    """Layer → what prepares it, in the order in which a child applies them: the last one forbids the others."""
    return {
        "user": prepare_user,
        "landlock": prepare_landlock,
        "seatbelt": prepare_seatbelt,
        "memory": partial(prepare_memory, memory_limit),
        "seccomp": prepare_seccomp,
    }


LAYERS = tuple(preparations(0))
"""What may hold a child beyond the resource limits that every system keeps."""


class Lockdown:
    """The layers that hold on this machine, ready to be applied; `reasons` says why a wanted one is missing.

    Each wanted layer is tried in a child of its own, which then looks whether it is really held.
    """

    def __init__(self, memory_mb: int, wanted: Iterable[str]) -> None:
        zero = (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE)
        self._limits = [(name, (0, 0)) for name in zero]
        if _LINUX:
            forbid_new_privileges()
        self._layers: dict[str, list[Step]] = {}
        self.reasons: dict[str, str] = {}
        prepare = preparations(memory_mb << 20)
        for name in [name for name in prepare if name in set(wanted)]:
            try:
                steps = prepare[name]()
                _try_in_child(name, steps, memory_mb << 20)
                self._layers[name] = steps
            except OSError as error:
                self.reasons[name] = error.strerror or str(error)

    @property
    def layers(self) -> list[str]:
        """Names of the layers that hold."""
        return list(self._layers)

    def steps(self, cpu_seconds: int | None, keep: int) -> list[Step]:
        """What a child of this process has to `apply_steps`: it then keeps the descriptors below `keep` and dies with us."""
        limits = [*self._limits]
        if cpu_seconds is not None:
            limits.append((resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds)))
        return [
            *self._layers.get("user", ()),
            *self._layers.get("landlock", ()),
            *self._layers.get("seatbelt", ()),
            partial(os.closerange, keep, _DESCRIPTORS),
            *(partial(resource.setrlimit, *limit) for limit in limits),
            *self._layers.get("memory", ()),
            *(_dying_with(os.getpid()) if _LINUX else _dying_after(cpu_seconds)),
            *self._layers.get("seccomp", ()),
        ]


def apply_steps(steps: Iterable[Step]) -> None:
    """Raises OSError where a step fails or the parent is gone: the caller must then end without running anything."""
    for step in steps:
        if step():
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def forbid_new_privileges() -> None:
    """No set-user-id program can raise this process or its children again; landlock and seccomp ask for it."""
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _dying_with(parent: int) -> list[Step]:
    """The kernel kills a child when its parent dies. To be taken after the user has changed, which clears it."""
    death = (ctypes.c_int(_PR_SET_PDEATHSIG), *(ctypes.c_ulong(argument) for argument in (_SIGKILL, 0, 0, 0)))
    return [partial(_LIBC.prctl, *death), lambda: os.getppid() != parent]


def _dying_after(seconds: int | None) -> list[Step]:
    """An alarm that ends a child some time after its limit: one whose zygote is gone, and which does not switch it off.

    (A worker without a limit sees its requests end.)
    """
    return [] if seconds is None else [partial(signal.alarm, seconds + 1)]


def _try_in_child(name: str, steps: list[Step], memory_limit: int) -> None:
    """Raises OSError unless a child that took the steps of a layer really is held by it."""
    child = os.fork()
    if child == 0:
        code = _DOES_NOT_HOLD
        try:
            apply_steps(steps)
            code = 0 if _holds(name, memory_limit) else _DOES_NOT_HOLD
        except OSError as error:
            code = error.errno or _DOES_NOT_HOLD
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, _DOES_NOT_HOLD):
        raise OSError(abs(code), os.strerror(abs(code)))
    if code:
        raise OSError(errno.ENOSYS, "the kernel takes it but it does not hold")


def _holds(name: str, memory_limit: int) -> bool:
    """Whether this process, which has taken the steps of a layer, is held by it."""
    if name == "user":
        return {os.getuid(), os.geteuid(), os.getgid(), os.getegid()} == {_NOBODY} and _is_final()
    if name == "memory":
        return _is_refused(memory_limit)
    try:
        os.close(os.open("/", os.O_RDONLY))
    except OSError as error:
        return error.errno == {"landlock": errno.EACCES, "seatbelt": errno.EPERM, "seccomp": errno.EPERM}[name]
    return False


def _is_final() -> bool:
    """Whether there is no way back to root."""
    try:
        os.setuid(0)
    except PermissionError:
        return True
    return False


def _is_refused(size: int) -> bool:
    """Whether the kernel gives no `size` bytes. They are never written to: where it does, it costs nothing."""
    try:
        bytes(size)
    except MemoryError:
        return True
    return False
