"""The clocks of the C library, turned into system calls, which seccomp.py then refuses. Standard library only.

The kernel maps its clocks, and since Linux 6.11 a random generator, into every process (`vdso(7)`): the C library reads
them there without a system call, so no filter sees it. Here each function of that mapping becomes the system call of
its name, and the pages with the time are unmapped. Python's own names for clocks are replaced in surroundings.py; this
is for a program that finds the originals.
"""

import ctypes
import os
import struct
from collections.abc import Callable

# fmt: off
_X86_64 = {
    "clock_gettime": 228, "gettimeofday": 96, "time": 201, "clock_getres": 229, "getcpu": 309, "getrandom": 318,
}
_AARCH64 = {"clock_gettime": 113, "gettimeofday": 169, "clock_getres": 114, "getrandom": 278}
# fmt: on


def _x86_64_call(number: int) -> bytes:
    """mov eax, number; syscall; ret."""
    return b"\xb8" + number.to_bytes(4, "little") + b"\x0f\x05\xc3"


def _aarch64_call(number: int) -> bytes:
    """mov x8, number; svc 0; ret."""
    return struct.pack("<3I", 0xD2800008 | number << 5, 0xD4000001, 0xD65F03C0)


_TABLES: dict[str, tuple[str, dict[str, int], Callable[[int], bytes]]] = {
    "x86_64": ("__vdso_", _X86_64, _x86_64_call),
    "aarch64": ("__kernel_", _AARCH64, _aarch64_call),
}
"""`os.uname().machine` → (prefix of the functions' names, name → number of the system call, its machine code)."""

_PR_SET_TSC, _PR_TSC_SIGSEGV = 26, 2

_LIBC = ctypes.CDLL(None, use_errno=True)


def use_system_calls() -> None:
    """Let this process, and all that it forks, read clocks by system calls alone; its counter of cycles ends it.

    Raises OSError where the mapping is not found, or may not be changed.
    """
    machine = os.uname().machine
    if machine not in _TABLES:
        raise OSError(f"no table of clocks for {machine}")
    prefix, numbers, machine_code = _TABLES[machine]
    library = ctypes.CDLL("linux-vdso.so.1", mode=os.RTLD_NOLOAD)
    functions = {number: getattr(library, prefix + name, None) for name, number in numbers.items()}
    mappings = _mappings()
    for name, begin, size in mappings:
        if name == "[vdso]":
            _call("mprotect", begin, size, 7)  # refused here, with nothing changed, where it would be refused below
            _call("mprotect", begin, size, 3)  # to read and write; until the end nothing here reads a clock
            for number, function in functions.items():
                if function is not None:
                    code = machine_code(number)
                    ctypes.memmove(function, code, len(code))
            _call("mprotect", begin, size, 5)  # to read and execute; the kernel empties the caches of instructions
    for name, begin, size in mappings:
        if name.startswith("[vvar"):
            _call("munmap", begin, size)
    _LIBC.prctl(_PR_SET_TSC, _PR_TSC_SIGSEGV, 0, 0, 0)  # fails on kernels for aarch64 before 6.12


def is_closed() -> bool:
    """Whether no page with the kernel's time is left in this process."""
    return not any(name.startswith("[vvar") for name, _, _ in _mappings())


def _mappings() -> list[tuple[str, int, int]]:
    """(name, address, bytes) of the kernel's own mappings in this process."""
    with open("/proc/self/maps") as lines:
        mappings = [line.split() for line in lines if "[v" in line]
    ranges = [(words[-1], *words[0].split("-")) for words in mappings]
    return [(name, int(begin, 16), int(end, 16) - int(begin, 16)) for name, begin, end in ranges]


def _call(name: str, *arguments: int) -> None:
    if getattr(_LIBC, name)(*map(ctypes.c_ulong, arguments)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
