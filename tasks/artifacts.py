"""Atomic, deterministic reading and writing of what passes between stages."""

import ctypes
import errno
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from tasks.errors import GraftError

RecordT = TypeVar("RecordT", bound=BaseModel)


def write_text(path: Path, text: str, durable: bool = True) -> None:
    """Write `text` to `path` as `write_bytes` does, in UTF-8."""
    write_bytes(path, text.encode(), durable)


def write_bytes(path: Path, content: bytes | memoryview, durable: bool = True) -> None:
    """Write `content` to `path` as `atomic_file` does."""
    with atomic_file(path, durable) as stream:
        stream.write(content)


@contextmanager
def atomic_file(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends well, and vanishes when it does not.

    Temporary name, fsync, rename. `durable=False` leaves the fsync out, for what is written often and whose loss
    is noticed.
    """
    with _full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def append_text(path: Path, text: str) -> None:
    """Add `text` to the end of a file, on the disk when this returns. What is killed meanwhile leaves a part of it."""
    with _full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())


def write_json(path: Path, value: BaseModel | dict[str, Any]) -> None:
    """Write one JSON object with sorted keys, indented, ending in a new line."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    write_text(path, json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: Path, records: Iterable[BaseModel]) -> None:
    """Write one record a line, keys sorted, each as it comes: no more than one is in memory for it.

    Whatever `records` raises leaves the file as it was.
    """
    with atomic_file(path) as stream:
        for record in records:
            stream.write(line_of(record))


def line_of(record: BaseModel) -> bytes:
    """A record as its line of a `.jsonl` file, the new line included."""
    plain = record.model_dump(mode="json")
    return (json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: Path, record: type[RecordT]) -> RecordT:
    """Read one record. Raises GraftError that names the file and the field."""
    return _parse(path, None, read_text(path), record)


def read_jsonl(path: Path, record: type[RecordT]) -> list[RecordT]:
    """Read all records of a file; only blank lines are skipped. Raises GraftError that names file, line and field."""
    return list(stream_jsonl(path, record))


def stream_jsonl(path: Path, record: type[RecordT]) -> Iterator[RecordT]:
    """`read_jsonl`, a line at a time: no more than one is in memory for it. Raises when it comes to the line."""
    return (found for _, found in read_numbered(path, record))


def read_numbered(path: Path, record: type[RecordT]) -> Iterator[tuple[int, RecordT]]:
    """`stream_jsonl`, each record with the number of its line."""
    with _named(path), path.open("rb") as lines:
        start = 0
        for number, line in enumerate(lines, start=1):
            text = _decoded(path, line, start)
            start += len(line)
            if text.strip():
                yield number, _parse(path, number, text, record)


def read_text(path: Path) -> str:
    """The text of a file. Raises GraftError where it is missing or not UTF-8."""
    with _named(path):
        return _decoded(path, path.read_bytes())  # read_text() would turn a workflow's "\r" into "\n"


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A new folder that takes the place of `path` when the block ends well, and vanishes when it does not."""
    with _full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            os.chmod(temporary, 0o755)
            yield temporary
            if path.is_dir() and not path.is_symlink() and _exchange(temporary, path):
                shutil.rmtree(temporary)  # by now the old one
                return
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as aside:
                if path.exists():
                    os.replace(path, Path(aside, path.name))  # two renames: no moment with half of the old folder
                os.replace(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step, so that there is no moment without either; False where the system,
    or the file system, cannot."""
    libc = ctypes.CDLL(None)
    names = (-100, os.fsencode(one), -100, os.fsencode(other), ctypes.c_uint(2))  # -100: relative to where we stand
    if hasattr(libc, "renameat2"):
        return int(libc.renameat2(*names)) == 0
    if hasattr(libc, "renamex_np"):  # macOS
        return int(libc.renamex_np(names[1], names[3], names[4])) == 0
    return False


def copy_folder(source: Path, target: Path, link: bool = False) -> None:
    """Copy a folder's files, or one file, to `target`.

    Unlike shutil.copytree, a full disk is raised as the plain OSError that it is. `link`: the same file under another
    name, where the file system knows that; for a source that nobody writes to any more.
    """
    files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
    for file in files:
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not (link and _link(file, copy)):
            shutil.copyfile(file, copy)


def _link(file: Path, other: Path) -> bool:
    try:
        os.link(file, other)
    except OSError:
        return False
    return True


def restore_folder(path: Path) -> None:
    """The folder `path`, where a writer was killed at the one moment when it had put the old one aside and the new one
    not yet in its place: the old one again. Nobody may be writing `path` meanwhile."""
    for aside in leftovers(path):
        if not path.exists() and (aside / path.name).is_dir():
            os.replace(aside / path.name, path)


def leftovers(path: Path) -> list[Path]:
    """What writers of `path` that were killed left beside it, or are just writing."""
    return sorted(path.parent.glob(f".{glob.escape(path.name)}.{'[a-z0-9_]' * 8}"))


def remove_leftovers(path: Path) -> None:
    """Remove what a writer of `path` that was killed left beside it. Nobody may be writing `path` meanwhile."""
    for left in leftovers(path):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


def digest_text(text: str) -> str:
    """sha256 of a text, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest_path(path: Path) -> str:
    """sha256 of a file, or of a folder's relative names and contents, hexadecimal."""
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    whole = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        whole.update(f"{file.relative_to(path).as_posix()}\0{digest_path(file)}\n".encode())
    return whole.hexdigest()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What stands in the way of reading a file, in one line; a pipe or a device, which may never end, is not opened."""
    try:
        if not S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise GraftError(f"{path}: is a device or a pipe, not a file; name the file")
        yield
    except FileNotFoundError:
        raise GraftError(f"{path}: no such file; run the stage that writes it (graft status names it)") from None
    except IsADirectoryError:
        raise GraftError(f"{path}: is a folder, not a file; name the file") from None
    except PermissionError as error:
        raise GraftError(f"{path}: not readable ({error.strerror}); mend its permissions") from None
    except (OSError, ValueError) as error:  # a name too long, a loop of links, a NUL in the name
        raise GraftError(f"{path}: cannot be read ({error}); mend its name") from None


def _decoded(path: Path, content: bytes, start: int = 0) -> str:
    """UTF-8 bytes that begin at `start` of a file."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GraftError(f"{path}: not UTF-8 text at byte {start + error.start}; save it as UTF-8") from None


@contextmanager
def _full_disk_named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GraftError(f"{path}: the disk is full; free some space and run again, nothing was lost") from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise GraftError(f"{path}: not writable ({error.strerror}); mend its permissions") from error
        raise


def _parse(path: Path, line: int | None, text: str, record: type[RecordT]) -> RecordT:
    where = f"{path}:{line}" if line else f"{path}"
    try:
        return record.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        detail = f"{field}: {first['msg']}" if field else first["msg"]
        raise GraftError(f"{where}: {detail}; mend the line or rebuild the file") from None
