"""SQLite's write-ahead log for a database that others read while a run writes it.

Without the log each commit waits three times for the disk, and whoever reads holds it up; MLflow makes some two
hundred commits a run. What a loss of power can take is the last commits, never the database. See sqlite.org/wal.html.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

LOCAL = {"apfs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "hfs", "overlay", "tmpfs", "xfs", "zfs"}
"""File systems of one machine. The log is in memory that its readers share, which those of a network have not."""


@contextmanager
def write_ahead(database: Path | None) -> Iterator[None]:
    """What SQLAlchemy connects to in the block uses the log, where the file system is known to be of this machine.

    At its end the connections are closed; with the last one the log goes into the database.
    """
    opened: list[sqlite3.Connection] = []

    def begin(connection: Any, _: object) -> None:
        with suppress(sqlite3.Error):  # read-only, in use, damaged: whoever asks for more is told
            if connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",):
                connection.execute("PRAGMA synchronous=NORMAL")
        opened.append(connection)

    if database is None or not _is_local(database):
        yield
        return
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    event.listen(Engine, "connect", begin)
    try:
        yield
    finally:
        event.remove(Engine, "connect", begin)
        for connection in opened:
            connection.close()


def _is_local(file: Path) -> bool:
    import psutil

    place = file.resolve()
    mounts = [mount for mount in psutil.disk_partitions(all=True) if place.is_relative_to(mount.mountpoint)]
    return bool(mounts) and max(mounts, key=lambda mount: len(mount.mountpoint)).fstype in LOCAL
