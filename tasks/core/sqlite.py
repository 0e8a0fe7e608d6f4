"""SQLite files: a lock for their creation, their schema, damage, and renaming a damaged database."""

import fcntl
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tasks.artifacts import open_file_itself

DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_damaged(database: Path) -> bool:
    """Whether the file exists and SQLite cannot read it. Reads all of it."""
    if not database.is_file():
        return False
    try:
        with closing(sqlite3.connect(database)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    except sqlite3.DatabaseError as error:  # busy, unreadable or a full disk: reported when it is opened
        return error.sqlite_errorcode & 0xFF in DAMAGE


def set_aside(database: Path) -> Path:
    """Rename the file and its journals, replacing an earlier damaged one. Returns the new name."""
    aside = database.with_name(f"{database.name}.damaged")
    for ending in ("", "-wal", "-shm"):
        part = database.with_name(database.name + ending)
        if part.exists():
            os.replace(part, aside.with_name(aside.name + ending))
    return aside


def schema_revision(database: Path | None) -> str | None:
    """The revision that alembic, which upgrades the tables of Prefect and others, has in a file; None: no tables."""
    if database is None or not database.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error:  # no tables, or reported when it is opened
        return None
    return str(row[0]) if row else None


def report_upgrade(database: Path | None, before: str | None) -> None:
    """Print a line if the tables of a database were upgraded since they had the revision `before`."""
    now = schema_revision(database)
    if before and now and now != before:
        line = "upgraded to the installed version, with all that it holds; an older version cannot read it"
        print(f"{database}: {line}", file=sys.stderr)


@contextmanager
def creation_lock(database: Path) -> Iterator[None]:
    """A lock: of several processes that create the tables of one database at once, all but one fail."""
    database.parent.mkdir(parents=True, exist_ok=True)
    with open(database.with_name(f"{database.name}.lock"), "a", opener=open_file_itself) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
