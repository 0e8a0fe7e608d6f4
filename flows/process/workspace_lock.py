"""The lock of a project's folder: one run at a time.

A kernel lock (`flock`) on `.graft/lock`, released however its process ends. A run holds it exclusively; single stages
(`graft stage`) share it, as DVC locks what they write. The text of the file names the holders, for messages only.
"""

import fcntl
import os
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


class WorkspaceLockedError(TransientError):
    """Another process holds the lock of this folder."""


@contextmanager
def exclusive_lock(root: Path, what: str) -> Iterator[None]:
    """Hold the lock of `root` exclusively; `what` is the command, for messages of other processes.

    Raises WorkspaceLockedError if it is taken.
    """
    with _lock(root, fcntl.LOCK_EX) as lock:
        lock.truncate(0)
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
    path = root / ".graft" / "lock"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    found = []
    for line in lines:
        with suppress(ValidationError):
            found.append(Holder.model_validate_json(line))
    return [f"{h.what} (process {h.pid}, since {h.since})" for h in found if psutil.pid_exists(h.pid)]


@contextmanager
def _lock(root: Path, kind: int) -> Iterator[IO[str]]:
    path = root / ".graft" / "lock"
    try:
        path.parent.mkdir(exist_ok=True)
        stream = open(path, "a", encoding="utf-8", opener=open_file_itself)  # noqa: SIM115 (below)
    except OSError as error:
        raise GraftError(f"{path}: not writable ({error.strerror}); fix its permissions") from error
    with stream:
        try:
            fcntl.flock(stream, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            who = ", ".join(holders(root)) or "another graft"
            raise WorkspaceLockedError(f"{root}: {who} is at work here; wait until it ends, or stop it") from None
        yield stream


def _write_holder(lock: IO[str], what: str) -> None:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    lock.write(Holder(pid=os.getpid(), since=since, what=what).model_dump_json() + "\n")
    lock.flush()
