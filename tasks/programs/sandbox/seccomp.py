"""A seccomp allow-list in raw BPF: the system calls that remain to a program.

They are memory, a pause, its open pipes and exit. Everything else (open, socket, clone, execve, kill, ptrace …)
fails with EPERM, which Python turns into PermissionError; `clock_gettime`, `getrandom` and `getpid` too, because a
result may depend on none of them. Two calls are allowed for some arguments only. Others tell which processes exist: a
futex that looks up its owner, the clock of a process id. And others tell the time, as they wait until then: a pause
that is to end at a time, not after one, and a futex with a limit, which ends at once (ETIMEDOUT; nobody else could wake
it). Sources: Linux `seccomp(2)`, `filter.h`, `futex.h`, `time.h`, the syscall tables.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import partial

# fmt: off
_X86_64 = {
    "read": 0, "write": 1, "futex": 202, "mmap": 9, "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28,
    "mprotect": 10, "close": 3, "clock_nanosleep": 230, "nanosleep": 35, "sched_yield": 24, "rt_sigreturn": 15,
    "rt_sigprocmask": 14, "restart_syscall": 219, "exit": 60, "exit_group": 231,
}
_AARCH64 = {
    "read": 63, "write": 64, "futex": 98, "mmap": 222, "munmap": 215, "brk": 214, "mremap": 216, "madvise": 233,
    "mprotect": 226, "close": 57, "clock_nanosleep": 115, "nanosleep": 101, "sched_yield": 124, "rt_sigreturn": 139,
    "rt_sigprocmask": 135, "restart_syscall": 128, "exit": 93, "exit_group": 94,
}
# fmt: on
_TABLES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
"""`os.uname().machine` → (audit architecture, name → number)."""

_LAST_CLOCK = 11  # CLOCK_TAI; as unsigned words those of process ids are far above it
_FUTEX_FLAGS = 0x180  # FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME
_FUTEX_WAITS, _FUTEX_WAKES = (0, 9), (1, 10)  # without and with a bit set

# BPF: A = word at k; A &= k; skip jt or jf instructions by A == k or A > k; end with k
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET = 0, 4  # in struct seccomp_data
_FIRST_OFFSET, _SECOND_OFFSET, _FOURTH_OFFSET = 16, 24, 40  # the lower words of arguments on little-endian machines
_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050001, 0x80000000  # _DENY: the call fails with errno 1, EPERM
_TIMED_OUT = 0x0005006E  # the call fails with errno 110, ETIMEDOUT
_PR_SET_SECCOMP, _FILTER_MODE = 22, 2

_LIBC = ctypes.CDLL(None, use_errno=True)


class _Instruction(ctypes.Structure):
    """`struct sock_filter`."""

    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


class Filter(ctypes.Structure):
    """`struct sock_fprog`: a complete allow-list."""

    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def build_filter() -> Filter:
    """The allow-list of this machine. Raises OSError on other machines than x86-64 and aarch64."""
    if os.uname().machine not in _TABLES:
        raise OSError(f"no seccomp table for {os.uname().machine}")
    instructions = assemble(*_TABLES[os.uname().machine])
    array = (_Instruction * len(instructions))(*(_Instruction(*i) for i in instructions))
    return Filter(len(instructions), ctypes.cast(array, ctypes.POINTER(_Instruction)))


def assemble(architecture: int, table: dict[str, int]) -> list[tuple[int, int, int, int]]:
    """BPF (code, jt, jf, k): kill on a foreign architecture, allow the table's numbers, deny everything else.

    Numbers of the x32 ABI have bit 30 set, so they are not in the table and are denied.
    """
    allow, deny = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _DENY)
    free = [number for name, number in table.items() if name not in ("clock_nanosleep", "futex")]
    of_pause = [
        (_LOAD, 0, 0, _FIRST_OFFSET),
        (_JUMP_GREATER, 3, 0, _LAST_CLOCK),
        (_LOAD, 0, 0, _SECOND_OFFSET),
        (_JUMP_EQUAL, 0, 1, 0),  # no TIMER_ABSTIME
        allow,
        deny,
    ]
    of_limit = [
        (_LOAD, 0, 0, _FOURTH_OFFSET),
        (_JUMP_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, _FOURTH_OFFSET + 4),
        (_JUMP_EQUAL, 0, 1, 0),
        allow,
        (_RETURN, 0, 0, _TIMED_OUT),
    ]
    of_futex = [
        (_LOAD, 0, 0, _SECOND_OFFSET),
        (_AND, 0, 0, 0xFFFFFFFF ^ _FUTEX_FLAGS),
        *_jumps(_FUTEX_WAITS, len(_FUTEX_WAKES) + 2),
        *_jumps(_FUTEX_WAKES, 1),
        deny,
        allow,
        *of_limit,
    ]
    return [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        *_jumps(free, 3),
        (_JUMP_EQUAL, 3, 0, table["clock_nanosleep"]),
        (_JUMP_EQUAL, 2 + len(of_pause), 0, table["futex"]),
        deny,
        allow,
        *of_pause,
        *of_futex,
    ]


def _jumps(numbers: Sequence[int], behind: int) -> list[tuple[int, int, int, int]]:
    """For each number a jump to the instruction that is `behind` others after the last of them."""
    return [(_JUMP_EQUAL, len(numbers) - 1 - place + behind, 0, number) for place, number in enumerate(numbers)]


def load_step(allow_list: Filter) -> Callable[[], object]:
    """A call that restricts this thread and its descendants to the allow-list for good.

    It returns -1 on failure. Needs no_new_privs.
    """
    mode = (ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_FILTER_MODE))
    return partial(_LIBC.prctl, *mode, ctypes.byref(allow_list), ctypes.c_ulong(0), ctypes.c_ulong(0))
