"""DVC without its trust in time stamps: each process hashes an output again, and a cached copy before it is taken.

So damage is seen, whatever the time stamp of the file; DVC alone would keep it, and hand it on as a result.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from dvc.fs import LocalFileSystem
from dvc.repo import Repo
from dvc_data.hashfile.db import HashFileDB
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile.meta import Meta

from flows.dvc_stages.patches.atomic_files import SoundState
from flows.dvc_stages.snapshot import Seen, Stamp, md5_of

UNKNOWN = 0.0
"""The time at which a file was read that DVC has read itself: some time before it said so."""


def distrust(repo: Repo) -> None:
    """Hash cached copies too: DVC takes a write-protected one at its word and would restore damage as a result."""
    repo.state.close()
    repo.state = Hashes(repo.root_dir, repo.site_cache_dir, repo.dvcignore)
    for _, odb in repo.cache.by_scheme():
        odb.state = repo.state
        odb.check = partial(HashFileDB.check, odb)


@contextmanager
def copies_at_their_word(repo: Repo) -> Iterator[None]:
    """Where a copy is only asked for and not taken, as beside an output that is sound: hashing all takes as long."""
    stores = {id(odb): odb for _, odb in repo.cache.by_scheme()}.values()
    ours = [(odb, odb.__dict__.pop("check")) for odb in stores]
    try:
        yield
    finally:
        for odb, check in ours:
            odb.check = check


class Hashes(SoundState):
    """The hashes of the files that this process has read itself; DVC's memory of them is written and never read.

    DVC trusts a file whose size, inode and modification time are as it remembers. Here the change time must be the
    same too, which no program can set back. A file that DVC asks for is read here, at less cost than its own way.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._seen: dict[str, tuple[Stamp, HashInfo, float]] = {}  # see Seen
        self._teaches = False

    @contextmanager
    def teaching(self) -> Iterator[None]:
        """In this block DVC's memory learns what is hashed: there it is new."""
        before, self._teaches = self._teaches, True
        try:
            yield
        finally:
            self._teaches = before

    def get(self, path: str, fs: Any, info: Any = None) -> tuple[Any, Any]:
        [(_, meta, found)] = self.get_many([path], fs, {path: info})  # to its end, where DVC's memory learns
        return meta, found

    def get_many(self, items: Any, fs: Any, infos: Any) -> Iterator[tuple[str, Any, Any]]:
        if not isinstance(fs, LocalFileSystem):
            yield from ((path, None, None) for path in items)
            return
        learnt = []
        for path in items:
            info = infos.get(path) or fs.info(path)
            stamp, found, _ = self._seen.get(path, (None, None, 0.0))
            before = time.time()
            if stamp != (now := _stamp(info)) and (found := _hashed(path, info)):
                self._seen[path] = (now, found, before)
                learnt.append((path, found, info))
            yield (path, Meta.from_info(info) if found else None, found)
        if self._teaches:
            super().save_many(learnt, fs)

    def save(self, path: str, fs: Any, hash_info: Any, info: Any = None) -> None:
        self.save_many([(path, hash_info, info)], fs)

    def save_many(self, items: Any, fs: Any) -> None:
        if not isinstance(fs, LocalFileSystem):
            return
        known = [(path, hash_info, info or fs.info(path)) for path, hash_info, info in items if info or fs.exists(path)]
        super().save_many(known, fs)
        self._seen.update({path: (_stamp(info), hash_info, UNKNOWN) for path, hash_info, info in known})

    def seen(self) -> dict[str, Seen]:
        """By absolute path."""
        return {path: (stamp, str(found.value), before) for path, (stamp, found, before) in self._seen.items()}


def _stamp(info: Any) -> Stamp:
    return info["ino"], info["size"], info["mtime"], info["created"]  # on Linux `created` is the change time


def _hashed(path: str, info: Any) -> HashInfo | None:
    """None where it is no file, which has no hash of its own."""
    return HashInfo("md5", md5_of(path, info["size"])) if info["type"] == "file" else None
