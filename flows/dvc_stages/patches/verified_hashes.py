"""Patch of DVC 3.67: hash every output and cached copy once per process, since DVC trusts size, inode and mtime.

Damage is found whatever the time stamps of a file. DVC alone would keep a damaged output and pass it on as a result;
a write-protected file in its cache it would not check at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dvc.fs import LocalFileSystem
from dvc_data.hashfile import state
from dvc_data.hashfile.db import HashFileDB
from dvc_data.hashfile.db.local import LocalHashFileDB
from dvc_data.hashfile.hash import file_md5
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile.meta import Meta

from flows.dvc_stages.patches.atomic_files import RecoveringState

Stamp = tuple[int, int, float, float]
"""Inode, size, modification and change time of a file."""


_Store: Any = LocalHashFileDB  # whose methods mypy lets nobody replace
_check = _Store.check  # it hashes no write-protected file


def verify_hashes() -> None:
    """Replace DVC's database of file hashes by one that verifies, and check cached copies before they are restored."""
    state.State = VerifyingState  # type: ignore[assignment,misc,unused-ignore]
    _Store.check = HashFileDB.check


@contextmanager
def unverified_cache() -> Iterator[None]:
    """Cached copies are not hashed in this block, where DVC only asks whether there is one."""
    _Store.check = _check
    try:
        yield
    finally:
        _Store.check = HashFileDB.check


class VerifyingState(RecoveringState):
    """Hashes of the files that this process has read itself. DVC's database is written, for `dvc repro`, but not read.

    A file is hashed again if its change time differs, too, which no program can set back.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._hashes: dict[str, tuple[Stamp, HashInfo]] = {}

    def get(self, path: str, fs: Any, info: Any = None) -> tuple[Any, Any]:
        """Metadata and hash of a local file, which is read unless this process has read it as it is now."""
        if not isinstance(fs, LocalFileSystem) or (info := info or fs.info(path))["type"] != "file":
            return None, None
        stamp, hash_info = self._hashes.get(path, (None, None))
        if stamp != _stamp(info):  # never asks DVC's database: what it says may be older than the damage
            hash_info = HashInfo("md5", file_md5(path, fs))
            self.save(path, fs, hash_info, info)
        return Meta.from_info(info), hash_info

    def get_many(self, items: Any, fs: Any, infos: Any) -> Iterator[tuple[str, Any, Any]]:
        """`get` for each of `items`."""
        return ((path, *self.get(path, fs, infos.get(path))) for path in items)

    def save_many(self, items: Any, fs: Any) -> None:
        """Remember hashes that DVC has computed."""
        if not isinstance(fs, LocalFileSystem):
            return
        known = [(path, hash_info, info or fs.info(path)) for path, hash_info, info in items if info or fs.exists(path)]
        super().save_many(known, fs)
        self._hashes.update({path: (_stamp(info), hash_info) for path, hash_info, info in known})


def _stamp(info: Any) -> Stamp:
    return info["ino"], info["size"], info["mtime"], info["created"]  # on Linux `created` is the change time
