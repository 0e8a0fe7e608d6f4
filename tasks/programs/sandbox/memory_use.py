"""Resident memory of a process, for machines whose kernel does not enforce a limit on the address space."""

import os


def resident_bytes(process: int) -> int:
    """Bytes of memory that a process uses now, pages shared with the zygote included; 0 if it no longer exists."""
    try:
        with open(f"/proc/{process}/statm") as sizes:
            return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):
        return 0
