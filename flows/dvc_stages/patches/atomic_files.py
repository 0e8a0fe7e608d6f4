"""What DVC writes for itself, made to survive a killed process, a full disk and damage.

- `dvc.lock` is written whole or not at all. DVC empties it and then writes ten thousand lines: killed meanwhile, or
  with a full disk, all that it knows of earlier results would be gone.
- A stage whose entry in the run-cache was about to be written then has none. DVC would stop at the empty folder.
- Its list of who reads and writes what is edited once a stage, and not for each of a stage's steps.
- DVC's memory of file hashes and its list of who reads and writes what hold nothing that cannot be found out again:
  where they are damaged they begin anew. DVC would stop at them for ever.
"""

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dvc import dvcfile, rwlock
from dvc.fs import LocalFileSystem
from dvc.lock import make_lock
from dvc.rwlock import RWLOCK_FILE, RWLOCK_LOCK, SCHEMA
from dvc.stage.cache import StageCache
from dvc.utils.serialize import EncodingError, _common, _yaml
from dvc_data.hashfile import state
from voluptuous import Invalid

from flows.dvc_stages.patches.lock_entries import modify_lock
from tasks.artifacts import write_text
from tasks.core.sqlite import damaged, set_aside
from tasks.errors import GraftError

_load_cache = StageCache._load_cache
_rwlock = rwlock.rwlock
_held: list[tuple[set[str], set[str]]] = []
"""The paths that this process has announced to read, and to write, the innermost last."""


def settle_files() -> None:
    """From now on this process writes DVC's YAML files whole, and takes damaged memories for empty ones."""
    _common._dump_data = _yaml._dump_data = write_whole
    dvcfile.modify_yaml = modify_lock
    rwlock.rwlock = rwlock_once
    state.State = SoundState  # type: ignore[misc,unused-ignore]
    if StageCache._load_cache is _load_cache:
        StageCache._load_cache = load_cache


@contextmanager
def rwlock_once(tmp_dir: Any, fs: Any, cmd: Any, read: list[str], write: list[str], hardlink: bool) -> Iterator[None]:
    """`dvc.rwlock.rwlock`; nothing is to be done where an outer block of this process says it all."""
    if any(writes.issuperset(write) and (reads | writes).issuperset(read) for reads, writes in _held):
        yield
        return
    with _rwlock(tmp_dir, fs, cmd, read, write, hardlink):
        _held.append((set(read), set(write)))
        try:
            yield
        finally:
            _held.pop()


def load_cache(self: Any, key: str, value: str | None) -> Any:
    """`StageCache._load_cache`; `value` is None where the folder of the key is empty. What is no text goes, too."""
    if value is None:
        return None
    try:
        return _load_cache(self, key, value)
    except EncodingError:
        Path(self._get_cache_path(key, value)).unlink()
        return None


def write_whole(path: Any, data: Any, dumper: Any, fs: Any = None, **options: Any) -> None:
    """`dvc.utils.serialize._common._dump_data`."""
    assert fs is None or isinstance(fs, LocalFileSystem)
    text = io.StringIO()
    dumper(data, text, **options)
    write_text(Path(path), text.getvalue())


class SoundState(state.State):  # type: ignore[misc,unused-ignore]
    """DVC's memory of file hashes and of links, begun anew where its files are damaged.

    What it has no room for it does without. Raises GraftError where it cannot be opened.
    """

    def __init__(self, root_dir: Any = None, tmp_dir: Any = None, ignore: Any = None) -> None:
        try:
            for name in ("hashes/local", "links"):
                database = Path(tmp_dir, name, "cache.db")
                if damaged(database):
                    set_aside(database)
            super().__init__(root_dir, tmp_dir, ignore)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise
            raise GraftError(
                f"{tmp_dir}: DVC's memory of file hashes cannot be opened ({error}); free some space there, mend its "
                "permissions, or name another folder with DVC_SITE_CACHE_DIR"
            ) from error

    def save_many(self, items: Any, fs: Any) -> None:
        with suppress(sqlite3.OperationalError):
            super().save_many(items, fs)

    def set_link(self, path: Any, inode: Any, mtime: Any) -> None:
        with suppress(sqlite3.OperationalError):
            super().set_link(path, inode, mtime)  # type: ignore[no-untyped-call,unused-ignore]


def readers_and_writers(folder: Path) -> set[int]:
    """The processes in DVC's list of who reads and writes what, in `.dvc/tmp`. A torn list is removed.

    Whoever writes it holds the same lock, so that a torn one is of a process that was killed.
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
