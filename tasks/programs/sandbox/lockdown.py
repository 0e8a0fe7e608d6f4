"""Layers of protection that a child applies before it runs a program: user, landlock, memory, clock, seccomp, limits.

The zygote prepares them once (`Lockdown`); every child applies the steps. Landlock is called by raw system calls
(Linux `Documentation/userspace-api/landlock.rst`; their numbers are the same on x86-64 and aarch64). Standard library
only.
"""

import ctypes
import errno
import os
import resource
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise

from tasks.programs.sandbox import clocks
from tasks.programs.sandbox.seccomp import build_filter, load_step

_NOBODY = 65534
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 1, 38, 9
_CREATE_RULESET, _RESTRICT_SELF, _VERSION_FLAG = 444, 446, 1
_NOT_ENFORCED = 255
_STACK = 8 << 20  # bytes, Linux's own default: how deep calls of C may go should not be the shell's choice
_DESCRIPTORS = 256  # more than the zygote ever has open

_LIBC = ctypes.CDLL(None, use_errno=True)

Restriction = Callable[[], object]
"""Restricts this process for good. Raises OSError or returns a true value on failure.

Built in the zygote, with its arguments as C types already, so that a child does as little as possible: every page
that a child writes to, even for a reference count, must be copied.
"""


def prepare_user() -> list[Restriction]:
    """Programs of a host that is root run as `nobody`: no process limit applies to root, and it may signal all."""
    if os.geteuid() != 0:
        raise OSError(errno.EPERM, "the host is not root; its programs keep its user")
    return [  # for root these set the saved ids too
        partial(os.setgroups, ()),
        partial(os.setgid, _NOBODY),
        partial(os.setuid, _NOBODY),
    ]


def prepare_landlock() -> list[Restriction]:
    """No file, no TCP, no abstract socket. (Modes and times of this user's own files are not covered.)"""
    return [partial(_LIBC.syscall, *map(ctypes.c_long, (_RESTRICT_SELF, _create_ruleset(), 0)))]


def prepare_memory(limit: int) -> list[Restriction]:
    """At most `limit` bytes of address space."""
    return [partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit))]


def prepare_clock() -> list[Restriction]:
    """No clock without a system call, here and in all children."""
    clocks.use_system_calls()
    return []


def prepare_seccomp() -> list[Restriction]:
    """No system calls except for memory, pauses, open pipes and exit."""
    return [load_step(build_filter())]


def preparations(memory_limit: int) -> dict[str, Callable[[], list[Restriction]]]:
    """Layer → the function that prepares it, in the order of application: the last one forbids the others."""
    return {
        "user": prepare_user,
        "landlock": prepare_landlock,
        "memory": partial(prepare_memory, memory_limit),
        "clock": prepare_clock,
        "seccomp": prepare_seccomp,
    }


LAYERS = tuple(preparations(0))
"""The layers beyond the resource limits, which are always applied."""


class Lockdown:
    """The layers that this machine enforces, ready to be applied; `reasons` has why a requested one is missing.

    Each requested layer is tested in a child of its own, which checks that the restriction is really enforced.
    """

    def __init__(self, memory_mb: int, wanted: Iterable[str]) -> None:
        zero = (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE)
        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        stack = _STACK if hard == resource.RLIM_INFINITY else min(_STACK, hard)
        self._limits = [*((name, (0, 0)) for name in zero), (resource.RLIMIT_STACK, (stack, stack))]
        forbid_new_privileges()
        self._layers: dict[str, list[Restriction]] = {}
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
        """Names of the layers that are enforced."""
        return list(self._layers)

    def steps(self, cpu_seconds: int | None, keep: int, others: Iterable[int] = ()) -> list[Restriction]:
        """The steps for a child, which then has the descriptors below `keep` and the `others`, and dies with this
        process.
        """
        limits = [*self._limits]
        if cpu_seconds is not None:
            limits.append((resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds)))
        # The order matters: a change of user clears the signal at the parent's death, so that is set after it, and
        # seccomp is last because it forbids the calls by which all others are set.
        return [
            *self._layers.get("user", ()),
            *self._layers.get("landlock", ()),
            *_close_all_but(keep, others),
            *(partial(resource.setrlimit, *limit) for limit in limits),
            *self._layers.get("memory", ()),
            *_die_with(os.getpid()),
            *self._layers.get("seccomp", ()),
        ]


def apply_steps(steps: Iterable[Restriction]) -> None:
    """Raises OSError if a step fails or the parent is dead: the caller must then exit without running anything."""
    for step in steps:
        if step():
            raise _last_error()


def forbid_new_privileges() -> None:
    """Set no_new_privs, so that no set-user-id program gives this process rights; landlock and seccomp require it."""
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _last_error()


class _Attributes(ctypes.Structure):
    """`struct landlock_ruleset_attr`: the access rights that are denied unless a rule allows them; no rule is added."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def _create_ruleset() -> int:
    """A file descriptor of the strictest ruleset that this kernel supports. Raises OSError if it has no landlock."""
    version = _landlock(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    # A right that the kernel does not know makes the whole call fail, so only those of its version are named: refer
    # came with 2, truncate with 3, ioctl on devices with 5, TCP with 4, scopes (abstract sockets, signals) with 6.
    files = 13 + (version >= 2) + (version >= 3) + (version >= 5)  # access rights, one bit each
    attributes = _Attributes((1 << files) - 1, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    return _landlock(_CREATE_RULESET, ctypes.byref(attributes), size, 0)


def _landlock(number: int, *arguments: object) -> int:
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    value: int = _LIBC.syscall(ctypes.c_long(number), *plain)
    if value < 0:
        raise _last_error()
    return value


def _last_error() -> OSError:
    return OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _close_all_but(keep: int, others: Iterable[int]) -> list[Restriction]:
    """Close the descriptors from `keep` on, but not the others."""
    ends = [keep - 1, *sorted(others), _DESCRIPTORS]
    return [partial(os.closerange, low + 1, high) for low, high in pairwise(ends)]


def _die_with(parent: int) -> list[Restriction]:
    """The kernel kills a child when its parent dies. Applied after the change of user, which clears the setting."""
    death = (ctypes.c_int(_PR_SET_PDEATHSIG), *(ctypes.c_ulong(argument) for argument in (_SIGKILL, 0, 0, 0)))
    return [partial(_LIBC.prctl, *death), lambda: os.getppid() != parent]


def _try_in_child(name: str, steps: list[Restriction], memory_limit: int) -> None:
    """Raises OSError unless the layer is enforced in a child that applied its steps."""
    child = os.fork()  # a layer cannot be taken back, so the zygote must not try it on itself
    if child == 0:
        code = _NOT_ENFORCED
        try:
            apply_steps(steps)
            code = 0 if _is_enforced(name, memory_limit) else _NOT_ENFORCED
        except OSError as error:
            code = error.errno or _NOT_ENFORCED
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, _NOT_ENFORCED):
        raise OSError(abs(code), os.strerror(abs(code)))
    if code:
        raise OSError(errno.ENOSYS, "the kernel accepts it but does not enforce it")


def _is_enforced(name: str, memory_limit: int) -> bool:
    """Whether a layer restricts this process, which has applied its steps."""
    if name == "user":
        return {os.getuid(), os.geteuid(), os.getgid(), os.getegid()} == {_NOBODY} and _is_final()
    if name == "memory":
        return _is_refused(memory_limit)
    if name == "clock":
        return clocks.is_closed()
    try:
        os.close(os.open("/", os.O_RDONLY))
    except OSError as error:
        return error.errno == {"landlock": errno.EACCES, "seccomp": errno.EPERM}[name]
    return False


def _is_final() -> bool:
    """Whether there is no way back to root."""
    try:
        os.setuid(0)
    except PermissionError:
        return True
    return False


def _is_refused(size: int) -> bool:
    """Whether the kernel refuses `size` bytes. They are never written to, so an allocation costs nothing."""
    try:
        bytes(size)
    except MemoryError:
        return True
    return False
