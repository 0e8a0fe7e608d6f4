"""SQLite's write-ahead log: who gets it, and what it is for."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DatabaseError, OperationalError

from tasks.core.sqlite import sqlite_file
from tasks.core.write_ahead import write_ahead


@pytest.fixture
def database(tmp_path: Path) -> Path:
    made = tmp_path / "a.db"
    with closing(sqlite3.connect(made)) as connection, connection:
        connection.execute("create table numbers (number integer)")
    return made


def add(database: Path, number: int, timeout: float = 5) -> None:
    engine = create_engine(f"sqlite:///{database}", connect_args={"timeout": timeout})
    with engine.begin() as connection:
        connection.execute(text("insert into numbers values (:number)"), {"number": number})


def mode_of(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def numbers_in(database: Path) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        return [number for (number,) in connection.execute("select number from numbers")]


@contextmanager
def reading(database: Path) -> Iterator[None]:
    """In the block somebody reads."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("begin")
        connection.execute("select * from numbers").fetchall()
        yield


def mounted_as(kind: str, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = {"/": "xfs", str(database.parent): kind}
    found = [SimpleNamespace(mountpoint=place, fstype=fstype) for place, fstype in mounts.items()]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: found if all else [])


def test_it_is_used_and_gone_at_the_end(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted_as("ext4", database, monkeypatch)
    with write_ahead(database):
        add(database, 1)
        assert mode_of(database) == "wal"
        assert {file.name for file in database.parent.iterdir()} == {"a.db", "a.db-wal", "a.db-shm"}
    assert [file.name for file in database.parent.iterdir()] == ["a.db"]  # a copy of the file is a copy of it all
    assert numbers_in(database) == [1]


def test_who_reads_holds_up_nobody_who_writes(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted_as("ext4", database, monkeypatch)
    with pytest.raises(OperationalError, match="locked"), reading(database):
        add(database, 1, timeout=0.1)
    with write_ahead(database):
        add(database, 2)
        with reading(database):
            add(database, 3, timeout=0.1)
    assert numbers_in(database) == [2, 3]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p", "whatever"])
def test_not_on_a_file_system_that_may_be_of_a_network(
    database: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted_as(kind, database, monkeypatch)
    with write_ahead(database):
        add(database, 1)
    assert mode_of(database) == "delete"


def test_what_is_connected_to_elsewhere_is_left_alone(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted_as("ext4", database, monkeypatch)
    with write_ahead(database):
        pass
    add(database, 1)
    assert mode_of(database) == "delete"
    with write_ahead(None):
        add(database, 2)
    assert mode_of(database) == "delete"


def test_a_database_that_somebody_writes_to_stays_as_it_was(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted_as("ext4", database, monkeypatch)
    with closing(sqlite3.connect(database)) as other:
        other.execute("begin immediate")
        with write_ahead(database), pytest.raises(OperationalError, match="locked"):
            add(database, 1, timeout=0.1)
        other.rollback()
    add(database, 2)
    assert (mode_of(database), numbers_in(database)) == ("delete", [2])


def test_what_is_no_database_is_told_by_who_asks_it_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "a.db"
    database.write_text("this is no database, " * 100)
    mounted_as("ext4", database, monkeypatch)
    told = pytest.raises(DatabaseError, match="not a database")
    with write_ahead(database), create_engine(f"sqlite:///{database}").connect() as connection, told:
        connection.execute(text("select * from numbers"))


@pytest.mark.parametrize(
    ("uri", "file"),
    [("sqlite:///a/b.db", Path("a/b.db")), ("sqlite:////a/b.db", Path("/a/b.db")), ("http://x", None), ("", None)],
)
def test_which_address_is_a_file(uri: str, file: Path | None) -> None:
    assert sqlite_file(uri) == file
