"""History of the scheduled runs: `.graft/history.jsonl`, one line each."""

from datetime import datetime
from pathlib import Path

from tasks.artifacts import append_text, read_jsonl
from tasks.records import Record


class Entry(Record):
    """A scheduled run that found changes. `when`: its end, in local time."""

    when: str
    done: bool  # False: it failed
    line: str
    flow_run: str
    mlflow_run: str | None


def add_entry(root: Path, done: bool, line: str, flow_run: str, mlflow_run: str | None) -> None:
    """Append a run."""
    when = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    entry = Entry(when=when, done=done, line=line, flow_run=flow_run, mlflow_run=mlflow_run)
    append_text(_file(root), entry.model_dump_json() + "\n")


def entries(root: Path) -> list[Entry]:
    """All entries, the oldest first."""
    return read_jsonl(_file(root), Entry) if _file(root).exists() else []


def _file(root: Path) -> Path:
    return root / ".graft" / "history.jsonl"
