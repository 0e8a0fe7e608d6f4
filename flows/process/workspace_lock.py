"""The lock of a project's folder: one run at a time.

A kernel lock (`flock`) on `.graft/lock`, released however its process ends. A run holds it exclusively; single stages
(`graft stage`) share it, as DVC locks what they write. The text of the file names the holders, for messages only.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO

import psutil
from pydantic import BaseModel, Field, ValidationError

from tasks.artifacts import open_file_itself
from tasks.errors import GraftError, TransientError

RETRAIN, SCHEDULED_RUN = "graft retrain", "a scheduled run"
"""Holders of the lock that are runs."""

PATIENCE = 0.1
"""Seconds in which a lock that is taken may become free: one who asks whether it is holds it for a moment."""


class WorkspaceLockedError(TransientError):
    """Another process holds the lock of this folder."""


@contextmanager
def exclusive_lock(root: Path, what: str) -> Iterator[None]:
    """Hold the lock of `root` exclusively; `what` is the command, for messages of other processes.

    Raises WorkspaceLockedError if it is taken.
    """
    with _lock(root, fcntl.LOCK_EX) as lock:
        lock.truncate(0)  # of holders that were killed, whose lock the kernel released but whose names stand here
        _write_holder(lock, what)
        try:
            yield
        finally:
            lock.truncate(0)


@contextmanager
def shared_lock(root: Path, what: str) -> Iterator[None]:
    """Share the lock of `root` with other single stages, but not with a run. Raises WorkspaceLockedError."""
    with _lock(root, fcntl.LOCK_SH) as lock:
        _write_holder(lock, what)
        yield


class Holder(BaseModel):
    """A process that holds the lock."""

    pid: int = Field(gt=0, lt=2**31)
    since: str
    what: str


def holders(root: Path) -> list[str]:
    """The holders of the lock, each as `graft retrain (process 123, since 2026-11-22 03:00:00)`.

    For messages only: the lock itself is the kernel's, and a damaged file lists no holder.
    """
    return [f"{h.what} (process {h.pid}, since {h.since})" for h in _written(root) if psutil.pid_exists(h.pid)]


def is_held(root: Path, alone: bool = False) -> bool:
    """Whether a process holds the lock, in whatever container it is; `alone`: exclusively. Raises GraftError."""
    path = _path(root)
    if not path.is_file():
        return False
    with _opened(path, "r") as lock:
        return not _take(lock, fcntl.LOCK_SH if alone else fcntl.LOCK_EX)


def is_run_at_work(root: Path) -> bool:
    """Whether a run holds the lock. Raises GraftError."""
    return is_held(root, alone=True) and any(
        holder.what.startswith((RETRAIN, SCHEDULED_RUN)) for holder in _written(root)
    )


def _written(root: Path) -> list[Holder]:
    """The holders that the text of the file names; one that was killed is among them until the next exclusive lock."""
    path = _path(root)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    listed = []
    for line in lines:
        with suppress(ValidationError):
            listed.append(Holder.model_validate_json(line))
    return listed


@contextmanager
def _lock(root: Path, kind: int) -> Iterator[IO[str]]:
    path = _path(root)
    with _opened(path, "a") as stream:  # "w" would empty the names of the holders before the lock is taken
        if not _take(stream, kind):
            who = ", ".join(holders(root)) or "another graft"
            raise WorkspaceLockedError(f"{root}: {who} is at work here; wait until it ends, or stop it")
        yield stream


def _opened(path: Path, mode: str) -> IO[str]:
    try:
        path.parent.mkdir(exist_ok=True)
        return open(path, mode, encoding="utf-8", opener=open_file_itself)
    except OSError as error:
        raise GraftError(f"{path}: not writable ({error.strerror}); fix its permissions") from error


def _take(stream: IO[str], kind: int) -> bool:
    """Take the lock; False if it is taken."""
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            # flock, not lockf: that one would be released as soon as this process closes any file handle of the path.
            fcntl.flock(stream, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > limit:
                return False
            time.sleep(PATIENCE / 10)
        else:
            return True


def _path(root: Path) -> Path:
    return root / ".graft" / "lock"


def _write_holder(lock: IO[str], what: str) -> None:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    lock.write(Holder(pid=os.getpid(), since=since, what=what).model_dump_json() + "\n")
    lock.flush()
