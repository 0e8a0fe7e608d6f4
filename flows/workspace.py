"""Who is at work in a project's folder: never two runs at once.

A lock on the file `.graft/lock` that the kernel holds for a process and takes back however that process ends. A run
holds it alone; single stages (`graft stage`) share it with each other, as DVC keeps apart what they write. The file
says who holds it, for people.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from tasks.errors import GraftError, Passing

TICK = 0.5  # seconds between two looks at a lock that is waited for


class Busy(Passing):
    """Another process is at work here."""


@contextmanager
def alone(root: Path, what: str, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Be the only run at work in `root`; `what` is the command, for those who come meanwhile.

    Where another is at work, `waiting` is told who and we wait for its end. Raises Busy where there is nobody to tell,
    or where somebody waits already: a second one in line would do what the first one does.
    """
    with _opened(root, "lock") as lock:
        if not _taken(lock, fcntl.LOCK_EX):
            if waiting is None:
                raise _busy(root)
            _wait(root, lock, waiting)
        lock.truncate(0)
        _sign(lock, what)
        try:
            yield
        finally:
            lock.truncate(0)


@contextmanager
def beside_others(root: Path, what: str) -> Iterator[None]:
    """Be at work on single stages in `root`, beside others that are, but not beside a run. Raises Busy."""
    with _opened(root, "lock") as lock:
        if not _taken(lock, fcntl.LOCK_SH):
            raise _busy(root)
        _sign(lock, what)
        yield


def holders(root: Path) -> list[str]:
    """Who is at work, each as `graft retrain (process 123, since 2026-11-22 03:00:00)`."""
    path = root / ".graft" / "lock"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    found = [json.loads(line) for line in lines]
    return [f"{h['what']} (process {h['pid']}, since {h['since']})" for h in found if is_alive(h["pid"])]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


@contextmanager
def _opened(root: Path, name: str) -> Iterator[IO[str]]:
    path = root / ".graft" / name
    try:
        path.parent.mkdir(exist_ok=True)
        stream = path.open("a", encoding="utf-8")
    except OSError as error:
        raise GraftError(f"{path}: not writable ({error.strerror}); mend its permissions") from error
    with stream:
        yield stream


def _wait(root: Path, lock: IO[str], waiting: Callable[[str], None]) -> None:
    who = _who(root)
    with _opened(root, "lock.next") as line:
        if not _taken(line, fcntl.LOCK_EX):
            raise Busy(f"{root}: {who} is at work here, and another run waits for its end already")
        waiting(f"{who} is at work here; waiting for its end")
        while not _taken(lock, fcntl.LOCK_EX):
            time.sleep(TICK)


def _taken(lock: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(lock: IO[str], what: str) -> None:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    lock.write(json.dumps({"pid": os.getpid(), "since": since, "what": what}) + "\n")
    lock.flush()


def _busy(root: Path) -> Busy:
    return Busy(f"{root}: {_who(root)} is at work here; wait until it ends, or stop it")


def _who(root: Path) -> str:
    return ", ".join(holders(root)) or "another graft"
