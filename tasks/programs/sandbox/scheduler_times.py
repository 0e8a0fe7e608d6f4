"""Scheduler times of a process: how long it has run, and has waited for a processor. Standard library only."""

import os
import time

TICK_SECONDS = 0.02  # the kernel updates its accounts more often than that


def seconds_queued(process: int) -> float:
    """Seconds that a runnable process waited for a processor, without a wait still going on; 0 if not available."""
    return _scheduler_times(process)[1]


def is_starved(process: int) -> bool:
    """Whether a process is waiting for a processor: runnable, but not run for longer than the kernel's tick."""
    ran = _scheduler_times(process)[0]
    time.sleep(TICK_SECONDS)
    try:
        with open(f"/proc/{process}/stat") as line:
            state = line.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state == "R" and _scheduler_times(process)[0] == ran


def _scheduler_times(process: int) -> tuple[float, float]:
    """Seconds that a process has run and has waited for a processor; 0 if not available."""
    try:
        times = os.open(f"/proc/{process}/schedstat", os.O_RDONLY)  # open() makes twice as many system calls
    except FileNotFoundError:
        return 0.0, 0.0
    try:
        ran, waited, _ = os.read(times, 100).split()
    except ProcessLookupError:
        return 0.0, 0.0
    finally:
        os.close(times)
    return int(ran) / 1e9, int(waited) / 1e9
