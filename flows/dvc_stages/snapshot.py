"""Whether all is as the last run left it. Then nothing is to be done, and DVC need not find that out once more.

    a run to its end ──► .graft/untouched.json: what DVC judged by, file by file, and what it has of each stage
    the next run     ──► every file as it was: that holds. Anything else: DVC judges, as ever

A file is as it was where its inode, size, modification and change time are; the last no program can set back. One that
was read so soon after it was written that a later change might bear the same time is read again.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from flows.stages.result import StageResult
from flows.stages.sources import SOURCES
from tasks.artifacts import digest_text, write_text
from tasks.errors import GraftError
from tasks.records import Record

TICK = 2.0
"""Seconds of the coarsest clock that a file system keeps its times by."""

DESCRIBED_BY = ("dvc.yaml", "dvc.lock", "params.yaml")
"""The files that DVC knows the stages from."""

SETTINGS = (".dvcignore", ".dvc/config", ".dvc/config.local")
"""DVC's own."""

AT_ONCE = 2**20
"""Bytes of a file that is read in one piece."""

MOST = 200_000
"""Files of which a note is made; the note of a million would be 180 MB itself."""

LEFT_OUT = "__pycache__"
"""What Python leaves beside sources; DVC ignores it."""

Stamp = tuple[int, int, float, float]
"""Inode, size, modification and change time."""

Seen = tuple[Stamp, str, float]
"""Of a file that was read: its stamp, its md5, and a time at which it was not read yet."""


class Stage(Record):
    """What `dvc.lock` has of a stage: paths and their md5."""

    address: str
    deps: dict[str, str]
    outs: dict[str, str]


class Left(Record):
    """A workspace as a run left it. Paths in it are relative to it."""

    dvc: str  # its version
    described: str  # digest of DESCRIBED_BY and SETTINGS
    roots: list[str]  # the files and folders that stages read or write
    files: dict[str, Seen]  # all that is in them
    stores: dict[str, Stamp]  # the folders of DVC's cache: as they were, nothing was put in or taken away
    stages: list[Stage]


@dataclass(frozen=True)
class Untouched:
    """The stages of a workspace that is as the last run left it; stands in for `flows.dvc_stages.pipeline.Stages`."""

    root: Path
    stages: Mapping[str, Stage]

    def run(self, address: str) -> StageResult:
        """Nothing to do."""
        stage = self.stages[address]
        return StageResult(address, "unchanged", 0.0, stage.deps, stage.outs)

    def stale(self) -> dict[str, list[str]]:
        """None is."""
        return {address: [] for address in self.stages if address != SOURCES}

    def leave(self) -> None:
        """It is noted already."""


def leave(
    root: Path, roots: Iterable[str], seen: Mapping[str, Seen], stores: Iterable[Path], outcomes: Sequence[StageResult]
) -> None:
    """Note how a run left its workspace; nothing where a file is not as DVC judged by it, nor of more than MOST files.

    `roots`: the files and folders that its stages read or write; `seen`: of each file in them, by its absolute path.
    """
    names = sorted({os.path.relpath(path, root) for path in roots})
    with suppress(OSError):  # a file that is gone
        now = dict(_stamps(root, names))
        files = {name: seen[path] for name in now if (path := os.path.normpath(root / name)) in seen}
        if len(now) <= MOST and {name: found[0] for name, found in files.items()} == now:
            left = Left(
                dvc=version("dvc"),
                described=_described(root),
                roots=names,
                files=files,
                stores={os.path.relpath(store, root): _stamp(os.stat(store)) for store in stores},
                stages=[Stage(address=o.address, deps=o.deps, outs=o.outs) for o in outcomes],
            )
            _write(root, left)
            return
    _file(root).unlink(missing_ok=True)


def untouched(root: Path, addresses: Iterable[str]) -> Untouched | None:
    """These stages, where all is as the last run left it; None where DVC is to judge."""
    with suppress(OSError, ValueError):  # of a file that is gone, may not be read or has no name; DVC says what to do
        return _untouched(root, addresses)
    return None


def _untouched(root: Path, addresses: Iterable[str]) -> Untouched | None:
    left = _read(root)
    if left is None or (left.dvc, left.described) != (version("dvc"), _described(root)):
        return None
    stages = {stage.address: stage for stage in left.stages}
    if not stages.keys() >= set(addresses):
        return None
    if any(_stamp(os.stat(root / name)) != stamp for name, stamp in left.stores.items()):
        return None
    files = _still(root, left)
    if files is None:
        return None
    if files != left.files:
        _write(root, left.model_copy(update={"files": files}))
    return Untouched(root, stages)


def _still(root: Path, left: Left) -> dict[str, Seen] | None:
    """What is known of the files by now, where they are those that were seen."""
    now = time.time()
    stamps = dict(_stamps(root, left.roots))
    if stamps != {name: stamp for name, (stamp, _, _) in left.files.items()}:
        return None
    known = dict(left.files)
    for name, (stamp, md5, read) in left.files.items():
        if read <= max(stamp[2], stamp[3]) + TICK:
            if md5_of(root / name, stamp[1]) != md5:
                return None
            known[name] = (stamp, md5, now)
    return known


def md5_of(path: Path | str, size: int) -> str:
    """Of a file of so many bytes; a large one is not taken into memory."""
    with open(path, "rb", buffering=0) as file:
        digest = hashlib.md5(file.read()) if size <= AT_ONCE else hashlib.file_digest(file, "md5")
    return digest.hexdigest()


def _stamps(root: Path, names: Iterable[str]) -> Iterator[tuple[str, Stamp]]:
    """The files among and below `names`."""
    for name in names:
        path = root / name
        if path.is_dir():
            yield from _below(name, path)
        else:
            yield name, _stamp(path.lstat())


def _below(name: str, folder: str | Path) -> Iterator[tuple[str, Stamp]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield f"{name}/{entry.name}", _stamp(entry.stat(follow_symlinks=False))
            elif entry.name != LEFT_OUT:
                yield from _below(f"{name}/{entry.name}", entry.path)


def _stamp(info: os.stat_result) -> Stamp:
    return info.st_ino, info.st_size, info.st_mtime, info.st_ctime


def _described(root: Path) -> str:
    texts = [path.read_bytes() if (path := root / name).is_file() else b"" for name in (*DESCRIBED_BY, *SETTINGS)]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def _file(root: Path) -> Path:
    return root / ".graft" / "untouched.json"


def _write(root: Path, left: Left) -> None:
    """With its digest before it. Where there is no room for it the next run does without."""
    text = left.model_dump_json()
    with suppress(GraftError):
        write_text(_file(root), f"{digest_text(text)}\n{text}\n", durable=False)


def _read(root: Path) -> Left | None:
    """None where there is none, or it is damaged."""
    try:
        digest, text, rest = _file(root).read_text(encoding="utf-8").split("\n")
        return Left.model_validate_json(text) if (digest, rest) == (digest_text(text), "") else None
    except (OSError, ValueError):  # ValidationError and UnicodeDecodeError among them
        return None
