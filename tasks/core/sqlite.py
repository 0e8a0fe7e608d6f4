"""SQLite files: the path of an address, a check for damage, and setting a damaged database aside."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def damaged(database: Path) -> bool:
    """Whether the file is there and SQLite cannot make sense of it. Reads all of it."""
    if not database.is_file():
        return False
    try:
        with closing(sqlite3.connect(database)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    except sqlite3.DatabaseError as error:  # busy, not readable, no room: whoever opens it next tells
        return error.sqlite_errorcode & 0xFF in DAMAGE


def set_aside(database: Path) -> Path:
    """Rename the file, and what belongs to it, out of the way. Gives its new name; an older one of that name goes."""
    aside = database.with_name(f"{database.name}.damaged")
    for ending in ("", "-wal", "-shm"):
        part = database.with_name(database.name + ending)
        if part.exists():
            os.replace(part, aside.with_name(aside.name + ending))
    return aside


def sqlite_file(uri: str) -> Path | None:
    """The database that SQLAlchemy's address names; None where it is no file."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None
