"""Atomic, deterministic reading and writing of what passes between stages."""

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
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tasks.errors import GraftError

RecordT = TypeVar("RecordT", bound=BaseModel)


def write_text(path: Path, text: str, durable: bool = True) -> None:
    """Write `text` to `path` as `write_bytes` does, in UTF-8."""
    write_bytes(path, text.encode(), durable)


def write_bytes(path: Path, content: bytes | memoryview, durable: bool = True) -> None:
    """Write `content` to `path` whole or not at all: temporary name, fsync, rename.

    `durable=False` leaves the fsync out, for the thousands of small files of a folder that is renamed as a whole.
    """
    with _full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
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
    """Write one record a line, keys sorted."""
    lines = (
        json.dumps(r.model_dump(mode="json"), sort_keys=True, ensure_ascii=False, allow_nan=False) for r in records
    )
    write_text(path, "".join(line + "\n" for line in lines))


def read_json(path: Path, record: type[RecordT]) -> RecordT:
    """Read one record. Raises GraftError that names the file and the field."""
    return _parse(path, None, read_text(path), record)


def read_jsonl(path: Path, record: type[RecordT]) -> list[RecordT]:
    """Read all records of a file; only blank lines are skipped. Raises GraftError that names file, line and field."""
    return [found for _, found in read_numbered(path, record)]


def read_numbered(path: Path, record: type[RecordT]) -> list[tuple[int, RecordT]]:
    """`read_jsonl`, each record with the number of its line."""
    numbered = enumerate(read_text(path).split("\n"), start=1)
    return [(number, _parse(path, number, line, record)) for number, line in numbered if line.strip()]


def read_text(path: Path) -> str:
    """The text of a file. Raises GraftError where it is missing or not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")  # read_text() would turn a workflow's "\r" into "\n"
    except FileNotFoundError:
        raise GraftError(f"{path}: no such file; run the stage that writes it (graft status names it)") from None
    except IsADirectoryError:
        raise GraftError(f"{path}: is a folder, not a file; name the file") from None
    except UnicodeDecodeError as error:
        raise GraftError(f"{path}: not UTF-8 text at byte {error.start}; save it as UTF-8") from None


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder that takes the place of `path` when the block ends well, and vanishes when it does not."""
    with _full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            os.chmod(temporary, 0o755)
            yield temporary
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as aside:
                if path.exists():
                    os.replace(path, Path(aside, path.name))  # two renames: no moment with half of the old folder
                os.replace(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def copy_folder(source: Path, target: Path, leave_out: str = "") -> None:
    """Copy a folder's files into `target`, those below `leave_out` excepted.

    Unlike shutil.copytree, a full disk is raised as the plain OSError that it is.
    """
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        relative = file.relative_to(source)
        if relative.parts[0] != leave_out:
            (target / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / relative)


def remove_leftovers(path: Path) -> None:
    """Remove what a writer of `path` that was killed left beside it. Nobody may be writing `path` meanwhile."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[a-z0-9_]' * 8}"):
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
