"""Processes of this machine: whether one has ended, those of a session, what they listen on, one that holds a lock."""

import ipaddress
import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).parents[2]


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


def listeners(pid: int) -> set[tuple[str, int]]:
    """(address, port) of each listening TCP socket of a process and all that it has started."""
    found: set[tuple[str, int]] = set()
    try:
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return found
    for process in tree:
        try:
            sockets = process.net_connections(kind="tcp")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        found |= {(s.laddr.ip, s.laddr.port) for s in sockets if s.status == psutil.CONN_LISTEN}
    return found


def is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


HOLD = """
import sys
from pathlib import Path
from flows.process.workspace_lock import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), "graft retrain"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holding(root: Path) -> "subprocess.Popen[str]":
    """Another process that holds the workspace until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process
