"""Processes of this machine: whether one has ended, and which ones a session holds."""

import os
import time
from collections.abc import Collection

import psutil


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and not one that only waits to be collected by whoever started it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def has_ended(pid: int, seconds: float = 60) -> bool:
    """Waits until the process has ended; False if it has not after these seconds."""
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def in_sessions(leaders: Collection[int]) -> list[int]:
    """Process ids in the sessions that `leaders` lead, zombies left out."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) in leaders and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return found
