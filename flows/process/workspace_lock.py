"""Who is at work in a project's folder: never two runs at once.

A lock on the file `.graft/lock` that the kernel holds for a process and takes back however that process ends. A run
holds it alone; single stages (`graft stage`) share it with each other, as DVC keeps apart what they write. The file
says who holds it, for people.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

import psutil
from pydantic import BaseModel, Field, ValidationError

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


class Holder(BaseModel):
    """A process at work, as it has signed."""

    pid: int = Field(gt=0, lt=2**31)  # what a system can be asked for
    since: str
    what: str


def holders(root: Path) -> list[str]:
    """Who is at work, each as `graft retrain (process 123, since 2026-11-22 03:00:00)`.

    It is for people: the kernel keeps the lock, and what a full disk or a crash made of the file tells nothing.
    """
    path = root / ".graft" / "lock"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    signed = [holder for line in lines if (holder := _read(line))]
    return [f"{h.what} (process {h.pid}, since {h.since})" for h in signed if psutil.pid_exists(h.pid)]


def _read(line: str) -> Holder | None:
    try:
        return Holder.model_validate_json(line)
    except ValidationError:
        return None


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
    lock.write(Holder(pid=os.getpid(), since=since, what=what).model_dump_json() + "\n")
    lock.flush()


def _busy(root: Path) -> Busy:
    return Busy(f"{root}: {_who(root)} is at work here; wait until it ends, or stop it")


def _who(root: Path) -> str:
    return ", ".join(holders(root)) or "another graft"
