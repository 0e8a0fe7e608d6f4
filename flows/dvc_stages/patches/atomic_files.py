"""Patch of DVC 3.67: its own files survive a killed process, a full disk and damage.

- `dvc.lock` is replaced atomically. DVC truncates it and then writes thousands of lines.
- The list of readers and writers is edited undisturbed by signals. An interrupt while DVC writes it leaves half of it,
  on which DVC fails before the command ends.
- An empty folder in the run-cache, or an entry that is no text, means that there is no entry. DVC raises.
- Damaged SQLite databases of file hashes, and a damaged list of readers and writers, are recreated: they hold nothing
  that cannot be computed again. DVC fails on them until they are removed by hand.
"""

import io
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from diskcache import Timeout
from dvc import rwlock
from dvc.fs import LocalFileSystem
from dvc.lock import make_lock
from dvc.rwlock import RWLOCK_FILE, RWLOCK_LOCK, SCHEMA
from dvc.stage.cache import StageCache
from dvc.utils.serialize import EncodingError, _common, _yaml
from dvc_data.hashfile import state
from voluptuous import Invalid

from flows.process.signals import defer_signals
from tasks.artifacts import write_text
from tasks.core.sqlite import is_damaged, set_aside
from tasks.errors import GraftError

_load_cache = StageCache._load_cache
_edit_rwlock = rwlock._edit_rwlock


def make_files_atomic() -> None:
    """Install the patches in this process."""
    _common._dump_data = _yaml._dump_data = write_atomically  # _yaml imported the function by name
    StageCache._load_cache = load_cache
    rwlock._edit_rwlock = edit_rwlock


@contextmanager
def edit_rwlock(*arguments: Any) -> Iterator[Any]:
    """`dvc.rwlock._edit_rwlock`; a signal that arrives in it is handled when the list is written."""
    with defer_signals(), _edit_rwlock(*arguments) as lock:
        yield lock


def load_cache(self: Any, key: str, value: str | None) -> Any:
    """`StageCache._load_cache`: None if the folder of the key is empty (`value` is None) or the entry is no text."""
    if value is None:
        return None
    try:
        return _load_cache(self, key, value)
    except EncodingError:
        Path(self._get_cache_path(key, value)).unlink()
        return None


def write_atomically(path: Any, data: Any, dumper: Any, fs: Any = None, **options: Any) -> None:
    """`dvc.utils.serialize._common._dump_data`."""
    assert fs is None or isinstance(fs, LocalFileSystem)  # DVC writes its own files nowhere else
    text = io.StringIO()
    dumper(data, text, **options)
    write_text(Path(path), text.getvalue())


class RecoveringState(state.State):  # type: ignore[misc,unused-ignore]
    """DVC's database of file hashes and links; recreated if damaged, and not written while the disk is full.

    DVC's own `save` and `set_link` ask the database again for ever where it cannot begin a transaction. Raises
    GraftError if it cannot be opened.
    """

    def __init__(self, root_dir: Any = None, tmp_dir: Any = None, ignore: Any = None) -> None:
        try:
            for name in ("hashes/local", "links"):
                database = Path(tmp_dir, name, "cache.db")
                if is_damaged(database):
                    set_aside(database)
            super().__init__(root_dir, tmp_dir, ignore)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise
            raise GraftError(
                f"{tmp_dir}: DVC's database of file hashes cannot be opened ({error}); free some space there, fix its "
                "permissions, or name another folder with DVC_SITE_CACHE_DIR"
            ) from error

    def save(self, path: Any, fs: Any, hash_info: Any, info: Any = None) -> None:
        self.save_many([(path, hash_info, info)], fs)

    def save_many(self, items: Any, fs: Any) -> None:
        with suppress(sqlite3.OperationalError, Timeout):
            super().save_many(items, fs)

    def set_link(self, path: Any, inode: Any, mtime: Any) -> None:
        with suppress(sqlite3.OperationalError, Timeout), self.links as links:
            links.set(os.path.relpath(path, self.root_dir), (inode, mtime))


def processes_at_work(folder: Path) -> set[int]:
    """The processes in DVC's list of readers and writers, in `.dvc/tmp`. A torn list is removed.

    A torn list was written by a process that was killed: its writers hold the lock that is taken here.
    """
    path = folder / RWLOCK_FILE
    with make_lock(str(folder / RWLOCK_LOCK), tmp_dir=str(folder), wait=True):
        try:
            listed = SCHEMA(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return set()
        except (ValueError, Invalid):
            path.unlink()
            return set()
    readers = [reader for several in listed["read"].values() for reader in several]
    return {process["pid"] for process in (*listed["write"].values(), *readers)}
