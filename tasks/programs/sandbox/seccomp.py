"""A seccomp allow-list in raw BPF: the system calls that remain to a program.

They are memory, the clock, its open pipes and exit. Everything else (open, socket, clone, execve, kill, ptrace …)
fails with EPERM, which Python turns into PermissionError. Sources: Linux `seccomp(2)`, `filter.h`, the syscall tables.
"""

import ctypes
import os
from collections.abc import Callable
from functools import partial

# fmt: off
_X86_64 = {
    "read": 0, "write": 1, "futex": 202, "mmap": 9, "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28,
    "mprotect": 10, "close": 3, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "nanosleep": 35,
    "gettimeofday": 96, "time": 201, "sched_yield": 24, "getpid": 39, "getrandom": 318, "rt_sigreturn": 15,
    "rt_sigprocmask": 14, "restart_syscall": 219, "exit": 60, "exit_group": 231,
}
_AARCH64 = {
    "read": 63, "write": 64, "futex": 98, "mmap": 222, "munmap": 215, "brk": 214, "mremap": 216, "madvise": 233,
    "mprotect": 226, "close": 57, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115, "nanosleep": 101,
    "gettimeofday": 169, "sched_yield": 124, "getpid": 172, "getrandom": 278, "rt_sigreturn": 139,
    "rt_sigprocmask": 135, "restart_syscall": 128, "exit": 93, "exit_group": 94,
}
# fmt: on
_TABLES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
"""`os.uname().machine` → (audit architecture, name → number)."""

_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF: A = word at k; skip jt or jf instructions; end with k
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET = 0, 4  # in struct seccomp_data
_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050001, 0x80000000  # _DENY: the call fails with errno 1, EPERM
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
    numbers = list(table.values())
    checks = [(_JUMP_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    return [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        *checks,  # each jumps over the remaining checks and the denial
        (_RETURN, 0, 0, _DENY),
        (_RETURN, 0, 0, _ALLOW),
    ]


def load_step(allow_list: Filter) -> Callable[[], object]:
    """A call that restricts this thread and its descendants to the allow-list for good.

    It returns -1 on failure. Needs no_new_privs.
    """
    mode = (ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_FILTER_MODE))
    return partial(_LIBC.prctl, *mode, ctypes.byref(allow_list), ctypes.c_ulong(0), ctypes.c_ulong(0))
