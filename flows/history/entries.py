"""History of the runs of a workspace: `.graft/history.jsonl`, a line for each, by hand or by schedule.

The caller of each function that writes holds the lock of the workspace.
"""

from datetime import datetime
from pathlib import Path

from tasks.artifacts import read_jsonl, write_jsonl
from tasks.records import Record
from tasks.tracking.tags import lock_digest


class Entry(Record):
    """A run."""

    when: str  # its end, in local time; its start until it has ended
    done: bool | None  # False: it failed; None: it has not ended, or was killed
    line: str  # what came of it
    flow_run: str
    mlflow_run: str | None
    number: int  # counted from 1
    name: str
    scheduled: bool
    dvc_lock_md5: str | None = None  # of a run that succeeded


def entries(root: Path) -> list[Entry]:
    """All entries, the oldest first."""
    return read_jsonl(_file(root), Entry) if _file(root).exists() else []


def next_number(root: Path) -> int:
    """The number of the next run."""
    return max((entry.number for entry in entries(root)), default=0) + 1


def write_entry(root: Path, entry: Entry) -> None:
    """Add an entry, or replace the one of the same number."""
    others = [other for other in entries(root) if other.number != entry.number]
    write_jsonl(_file(root), [*others, entry])


def find_number(root: Path, number: str) -> Entry | None:
    """The entry of this number."""
    return next((entry for entry in entries(root) if str(entry.number) == number), None)


def find_lock(root: Path, lock: bytes) -> Entry | None:
    """The first run that ended with this `dvc.lock`; later ones repeat it."""
    md5 = lock_digest(lock)
    return next((entry for entry in entries(root) if entry.dvc_lock_md5 == md5), None)


def now() -> str:
    """The local time of an entry."""
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")


def _file(root: Path) -> Path:
    return root / ".graft" / "history.jsonl"
