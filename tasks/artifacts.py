"""Atomic, deterministic reading and writing of the files that stages exchange."""

import ctypes
import errno
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from tasks.errors import GraftError

RecordT = TypeVar("RecordT", bound=BaseModel)


def write_text(path: Path, text: str, durable: bool = True) -> None:
    """Write `text` to `path` with `write_bytes`, in UTF-8."""
    write_bytes(path, text.encode(), durable)


def write_bytes(path: Path, content: bytes | memoryview, durable: bool = True) -> None:
    """Write `content` to `path` with `atomic_file`."""
    with atomic_file(path, durable) as stream:
        stream.write(content)


@contextmanager
def atomic_file(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A new file that replaces `path` when the block succeeds, and is removed when it fails.

    Temporary name, fsync, rename. `durable=False` omits the fsync, for frequent writes whose loss is detected.
    """
    with _translate_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Next to the target: a rename is atomic within one file system only, and /tmp is often another.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                if durable:
                    # Before the rename: after a loss of power some file systems have the new name with no content.
                    os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)  # mkstemp's 0600 would lock out the readers of a shared project
            os.replace(temporary, path)
        except BaseException:  # Ctrl-C, too
            Path(temporary).unlink(missing_ok=True)
            raise


def open_file_itself(path: str, flags: int) -> int:
    """The `opener` for `open` of a file that is written in place, a lock say: follows no link.

    Raises GraftError for a link, whose target would be changed, and for a pipe or a device.
    """
    no_file = GraftError(f"{path}: is a link, a pipe or a device, not a file, and is not written; remove it")
    try:
        # O_NONBLOCK: to open a pipe that nobody reads would wait for ever; of a file it changes nothing.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise no_file if error.errno in (errno.ELOOP, errno.ENXIO) else error from None
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise no_file
    return descriptor


def append_text(path: Path, text: str) -> None:
    """Append `text` to a file and fsync it. A kill may leave a part of it."""
    with _translate_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", newline="\n", opener=open_file_itself) as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())


def write_json(path: Path, value: BaseModel | dict[str, Any]) -> None:
    """Write one JSON object with sorted keys, indented, ending in a newline."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    write_text(path, json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: Path, records: Iterable[BaseModel]) -> None:
    """Write one record per line, keys sorted, one at a time in memory.

    If `records` raises, the file is unchanged.
    """
    with atomic_file(path) as stream:
        for record in records:
            stream.write(line_of(record))


def line_of(record: BaseModel) -> bytes:
    """A record as a line of a `.jsonl` file, newline included."""
    plain = record.model_dump(mode="json")
    return (json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: Path, record: type[RecordT]) -> RecordT:
    """Read one record. Raises GraftError that names the file and the field."""
    return _parse(path, None, read_text(path), record)


def read_jsonl(path: Path, record: type[RecordT]) -> list[RecordT]:
    """Read all records of a file, skipping blank lines. Raises GraftError that names file, line and field."""
    return list(stream_jsonl(path, record))


def stream_jsonl(path: Path, record: type[RecordT]) -> Iterator[RecordT]:
    """`read_jsonl` as an iterator, one line at a time in memory. Raises when it reaches an invalid line."""
    return (line for _, line in read_numbered(path, record))


def read_numbered(path: Path, record: type[RecordT]) -> Iterator[tuple[int, RecordT]]:
    """`stream_jsonl` with line numbers: (number, record)."""
    with _translate_read_errors(path), path.open("rb") as lines:
        start = 0
        for number, line in enumerate(lines, start=1):
            text = _decode(path, line, start)
            start += len(line)
            if text.strip():
                yield number, _parse(path, number, text, record)


def read_text(path: Path) -> str:
    """The text of a file. Raises GraftError if it is missing or not UTF-8."""
    with _translate_read_errors(path):
        return _decode(path, path.read_bytes())  # read_text() would replace "\r" in a workflow by "\n"


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A new folder that replaces `path` when the block succeeds, and is removed when it fails."""
    with _translate_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            os.chmod(temporary, 0o755)
            yield temporary
            # A rename cannot replace a folder that has something in it, so the two change places.
            if path.is_dir() and not path.is_symlink() and _exchange(temporary, path):
                shutil.rmtree(temporary)  # now the old folder
                return
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as aside:
                if path.exists():
                    os.replace(path, Path(aside, path.name))  # two renames: never a part of the old folder
                os.replace(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _exchange(new: Path, old: Path) -> bool:
    """Exchange two folders in one step, so that both paths always exist; False if the file system cannot."""
    # Python has no name for this system call. NFS refuses it, and a libc may lack it.
    libc, here, exchange = ctypes.CDLL(None), -100, ctypes.c_uint(2)  # AT_FDCWD, RENAME_EXCHANGE
    names = (here, os.fsencode(new), here, os.fsencode(old))
    return hasattr(libc, "renameat2") and int(libc.renameat2(*names, exchange)) == 0


def copy_folder(source: Path, target: Path, link: bool = False) -> None:
    """Copy a folder's files, or one file, to `target`.

    Unlike shutil.copytree, a full disk raises a plain OSError. `link`: hard links where the file system has them, for
    a source that is never written again.
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
    """Restore the old folder `path` if a writer was killed between the two renames of `atomic_folder`. There must be no
    concurrent writer."""
    for aside in leftovers(path):
        if not path.exists() and (aside / path.name).is_dir():
            os.replace(aside / path.name, path)


def leftovers(path: Path) -> list[Path]:
    """Temporary files and folders of the writers of `path`, killed or running, in the same folder."""
    return sorted(path.parent.glob(f".{glob.escape(path.name)}.{'[a-z0-9_]' * 8}"))


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files and folders of killed writers of `path`. There must be no concurrent writer."""
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
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return digest_listed({file.relative_to(path).as_posix(): digest_path(file) for file in files})


def digest_listed(digests: Mapping[str, str]) -> str:
    """`digest_path` of a folder whose files have these digests: relative name → sha256, in the order of their paths."""
    return digest_text("".join(f"{name}\0{digest}\n" for name, digest in digests.items()))


@contextmanager
def _translate_read_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into GraftErrors; pipes and devices, which may never end, are not opened."""
    try:
        if not S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise GraftError(f"{path}: is a device or a pipe, not a file; name the file")
        yield
    except FileNotFoundError:
        raise GraftError(f"{path}: no such file; run the stage that writes it (graft status names it)") from None
    except IsADirectoryError:
        raise GraftError(f"{path}: is a folder, not a file; name the file") from None
    except PermissionError as error:
        raise GraftError(f"{path}: not readable ({error.strerror}); fix its permissions") from None
    except (OSError, ValueError) as error:  # a name too long, a loop of links, a NUL in the name
        raise GraftError(f"{path}: cannot be read ({error}); correct its name") from None


def _decode(path: Path, content: bytes, start: int = 0) -> str:
    """Decode UTF-8 bytes that begin at offset `start` of a file."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GraftError(f"{path}: not UTF-8 text at byte {start + error.start}; save it as UTF-8") from None


@contextmanager
def _translate_write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GraftError(f"{path}: the disk is full; free some space and run again, nothing was lost") from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise GraftError(f"{path}: not writable ({error.strerror}); fix its permissions") from error
        raise


def _parse(path: Path, line: int | None, text: str, record: type[RecordT]) -> RecordT:
    where = f"{path}:{line}" if line else f"{path}"
    try:
        return record.model_validate_json(text)
    except ValidationError as error:
        raise GraftError(f"{where}: {first_problem(error)}; fix the line or rebuild the file") from None


def first_problem(error: ValidationError) -> str:
    """The first field that is not valid, if it is one, and what is wrong."""
    first = error.errors(include_url=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
