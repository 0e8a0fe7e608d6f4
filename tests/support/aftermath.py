"""What is looked at after a fault: the bytes that a run has left, and the processes."""

import os
import time
from pathlib import Path
from typing import NamedTuple

import psutil


class Bytes(NamedTuple):
    """All that a run leaves: dvc.lock, and the files of run/ by their names."""

    lock: bytes
    files: dict[str, bytes]


def bytes_of(root: Path) -> Bytes:
    """Not counted: the page and the account, which `graft retrain` alone writes, and what DVC tried links with."""
    folder = root / "run"
    files = [p for p in folder.rglob("*") if p.is_file() and p.name not in ("page.html", "account.json")]
    left = {p for p in folder.rglob(".*.tmp") if p.stat().st_size == 0}  # on a full disk it cannot clear up
    named = {p.relative_to(folder).as_posix(): p.read_bytes() for p in files if p not in left}
    return Bytes((root / "dvc.lock").read_bytes(), named)


def processes(marker: str) -> list[psutil.Process]:
    """All that were started with this text in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.pid != os.getpid() and marker in process.environ().values():
                found.append(process)
        except psutil.Error:
            continue
    return found


def left_after_a_while(marker: str) -> list[psutil.Process]:
    """Those that are still there when they had time to end."""
    deadline = time.monotonic() + 60
    while (left := processes(marker)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def overwrite(database: Path) -> None:
    """Damage a SQLite database: nothing of it is left."""
    database.write_bytes(os.urandom(50_000))


def punch_a_hole(database: Path) -> None:
    """Damage a SQLite database: its first page is whole, the others are zeros."""
    with database.open("r+b") as stream:
        stream.seek(5_000)
        stream.write(bytes(database.stat().st_size - 6_000))
