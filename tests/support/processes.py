"""Processes of this machine: whether one has ended, and which ones a session holds."""

import os
import time
from collections.abc import Collection

import psutil


def has_ended(pid: int, seconds: float = 60) -> bool:
    """True once the process has ended, or is a zombie that its parent has not collected; waits for that."""
    deadline = time.monotonic() + seconds
    while psutil.pid_exists(pid):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
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
