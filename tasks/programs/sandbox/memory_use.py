"""How much memory a process really uses, for a host whose kernel does not keep a limit on the address space (macOS).

The part for macOS is written from Apple's headers. **Nobody has run it here**; Linux's part is there for the tests.
"""

import ctypes
import os
import sys
from collections.abc import Callable

_FOOTPRINT = 72  # bytes before ri_phys_footprint in `struct rusage_info_v0` of <sys/resource.h>
_SIZE = 96  # of that structure
_VERSION_0 = 0
_LIBC = ctypes.CDLL(None)


def _on_linux(process: int) -> int:
    """Pages that are in memory, those shared with the zygote among them."""
    try:
        with open(f"/proc/{process}/statm") as sizes:
            return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _on_macos(process: int) -> int:
    """What the kernel counts as the process's own, what it compressed or swapped out included."""
    usage = (ctypes.c_uint8 * _SIZE)()
    if _LIBC.proc_pid_rusage(process, _VERSION_0, ctypes.byref(usage)):
        return 0
    return ctypes.c_uint64.from_buffer(usage, _FOOTPRINT).value


resident_bytes: Callable[[int], int] = _on_macos if sys.platform == "darwin" else _on_linux
"""Bytes of memory that a process uses now; 0 where it is gone."""
