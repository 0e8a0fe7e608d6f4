"""DVC without its trust in time stamps: every output and every cached copy is hashed again in each process.

So damage is seen, whatever the time stamp of the file; DVC alone would keep it, and hand it on as a result.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from dvc.repo import Repo
from dvc_data.hashfile.db import HashFileDB
from dvc_data.hashfile.meta import Meta

from flows.dvc_files import SoundState


def distrust(repo: Repo) -> None:
    """Hash cached copies too: DVC takes a write-protected one at its word and would restore damage as a result."""
    repo.state.close()
    repo.state = _Hashes(repo.root_dir, repo.site_cache_dir, repo.dvcignore)
    for _, odb in repo.cache.by_scheme():
        odb.state = repo.state
        odb.check = partial(HashFileDB.check, odb)


class _Hashes(SoundState):
    """DVC's memory of file hashes, read only for files that this process hashed itself.

    DVC trusts a file whose size, inode and modification time are as it remembers. Here the change time must be the
    same too, which no program can set back. What is learnt goes into DVC's memory as ever, for `dvc` to use.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._seen: dict[str, tuple[tuple[Any, ...], Any]] = {}

    def get(self, path: str, fs: Any, info: Any = None) -> tuple[Any, Any]:
        stamp, hash_info = self._seen.get(path, (None, None))
        if stamp is None:
            return None, None
        info = info or fs.info(path)
        return (Meta.from_info(info), hash_info) if stamp == _stamp(info) else (None, None)

    def get_many(self, items: Any, fs: Any, infos: Any) -> Iterator[tuple[str, Any, Any]]:
        for path in items:
            yield (path, *self.get(path, fs, infos.get(path)))

    def save(self, path: str, fs: Any, hash_info: Any, info: Any = None) -> None:
        self.save_many([(path, hash_info, info)], fs)

    def save_many(self, items: Any, fs: Any) -> None:
        known = [(path, hash_info, info or fs.info(path)) for path, hash_info, info in items if info or fs.exists(path)]
        super().save_many(known, fs)
        self._seen.update({path: (_stamp(info), hash_info) for path, hash_info, info in known})


def _stamp(info: Any) -> tuple[Any, ...]:
    return tuple(info[key] for key in ("ino", "size", "mtime", "created"))  # `created` is the change time on Unix
