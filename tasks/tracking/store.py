"""The SQLite file that MLflow keeps its records in: its path, and its creation or upgrade by one process at a time."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tasks.core.child_process import last_line
from tasks.core.sqlite import creation_lock, schema_revision
from tasks.errors import GraftError


def database_of(root: Path, uri: str) -> Path | None:
    """The file of `machine.tracking.uri`; None if it is not an SQLite file."""
    return root / uri.removeprefix("sqlite:///") if uri.startswith("sqlite:///") else None


@contextmanager
def store_lock(uri: str) -> Iterator[None]:
    """In the block no other process of Graft creates or upgrades the store; a file of an older MLflow is upgraded.

    Raises GraftError if it cannot be upgraded.
    """
    file = database_of(Path(), uri)
    if file is None:
        yield
        return
    with creation_lock(file):
        _upgrade(file)
        yield


def _upgrade(file: Path) -> None:
    """Upgrade a copy, which then takes the file's place: a file whose upgrade was killed can never be opened again."""
    from mlflow.store.db.utils import _get_latest_schema_revision

    if schema_revision(file) in (None, _get_latest_schema_revision()):
        return
    copy = file.with_name(f"{file.name}.upgrade")
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(copy)) as new:
        old.execute("PRAGMA journal_mode=DELETE")  # a write-ahead log would be taken for one of the upgraded file
        old.backup(new)
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{copy}"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        why = f"its tables are those of another MLflow and cannot be upgraded ({last_line(ended.stderr)[:300]})"
        raise GraftError(f"{file}: {why}; install that version, or move the file away to begin a new one")
    os.replace(copy, file)
