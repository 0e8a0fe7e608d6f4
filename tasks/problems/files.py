"""Problem files: `problems.path` is a file or a folder of files of JSON objects, one a line or in one list."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.artifacts import read_text
from tasks.errors import GraftError
from tasks.evaluators.number import kind_of
from tasks.problems.row import ColumnError
from tasks.programs.sandbox.run_program import is_unicode

_PANDAS = """python -c "import pandas; pandas.read_{}('{}').to_json('{}.jsonl', orient='records', lines=True)\""""
"""Command that converts a table: its kind, its name and the new name."""

_BINARY = (
    (b"PAR1", "a Parquet file", _PANDAS.format("parquet", "{0}", "{1}")),
    (b"ARROW1", "an Arrow file", _PANDAS.format("feather", "{0}", "{1}")),
    (b"\x1f\x8b", "compressed with gzip", "gunzip -c '{0}' > '{1}.jsonl'"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -dc '{0}' > '{1}.jsonl'"),
    (b"\xfd7zXZ", "compressed with xz", "xz -dc '{0}' > '{1}.jsonl'"),
    (b"BZh", "compressed with bzip2", "bunzip2 -c '{0}' > '{1}.jsonl'"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet", "unzip '{0}'"),
    (b"\xff\xfe", "encoded in UTF-16", "iconv -f UTF-16 -t UTF-8 '{0}' > '{1}.utf8.jsonl'"),
    (b"\xfe\xff", "encoded in UTF-16", "iconv -f UTF-16 -t UTF-8 '{0}' > '{1}.utf8.jsonl'"),
)
"""(first bytes, what the file is, how to convert it)."""


def problem_files(root: Path, path: str) -> dict[str, Path]:
    """The file, or every `*.jsonl` in the folder and below except hidden ones, sorted, by its name in errors.

    Raises GraftError if there is none, if DVC tracks one that is not pulled, or for what is no file or has no name that
    can be written as UTF-8: DVC, which digests the whole folder, would wait for a pipe for ever.
    """
    place = root / path
    if place.is_file():
        return {path: place}
    if not place.is_dir():
        raise GraftError(
            f"problems.path: no file {path}; name a jsonl file, for instance examples/problems.jsonl, or a folder"
        )
    _check_content(path, place)
    found = {file.relative_to(place) for pattern in ("*.jsonl", "*.jsonl.dvc") for file in place.rglob(pattern)}
    seen = sorted(file.as_posix() for file in found if is_problem_file(file.with_name(file.name.removesuffix(".dvc"))))
    for name in seen:
        if name.endswith(".dvc") and not (place / name.removesuffix(".dvc")).is_file():
            raise GraftError(f"{Path(path) / name}: its data is not here; run: dvc pull {Path(path) / name}")
    files = {f"{Path(path) / name}": place / name for name in seen if (place / name).is_file()}
    files = {name: file for name, file in files.items() if name.endswith(".jsonl")}
    if not files:
        others = sorted(file.name for file in place.iterdir() if file.is_file() and not file.name.startswith("."))
        there = f"; for how to convert {others[0]!r:.80}, run graft problems on it" if others else ""
        raise GraftError(f"problems.path: no *.jsonl in the folder {path}; put one there{there}")
    return files


def _check_content(path: str, place: Path) -> None:
    for folder, folders, names in os.walk(place):
        for name in (*folders, *names):
            shown = str(Path(path, Path(folder, name).relative_to(place)))
            if not is_unicode(name):
                named = os.fsencode(shown).decode(errors="backslashreplace")
                raise GraftError(f"{named}: its name is not UTF-8; rename it")
            if name in names and not os.path.isfile(Path(folder, name)):  # pathlib's own may raise
                what = "a pipe, a socket or a device" if os.path.exists(Path(folder, name)) else "a link to nothing"
                raise GraftError(f"{shown}: {what}, not a file; remove it from the folder of problems")


def is_problem_file(file: Path) -> bool:
    """True if a run reads the file, named relative to the folder of `problems.path`: no hidden or temporary one."""
    return file.suffix == ".jsonl" and not any(part.startswith(".") for part in file.parts)


def problem_text(name: str, file: Path) -> str:
    """The text of a problem file. Raises GraftError for a file of another kind, with the command that converts it."""
    with file.open("rb") as opened:
        begin = opened.read(16)
    for magic, kind, command in _BINARY:
        if begin.startswith(magic):
            base = name.removesuffix(file.suffix).removesuffix(".jsonl").removesuffix(".json")
            raise GraftError(f"{name}: {kind}, not JSON lines; convert it: {command.format(name, base)}")
    return read_text(file)


def rows_of(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of each line, of each item of a JSON list, or of each question of DROP's and SQuAD's one object.

    Raises GraftError that names file and line for anything else.
    """
    text = text.removeprefix("\ufeff")
    whole = _whole(name, text)
    if whole is not None:
        for number, item in enumerate(whole, start=1):
            yield f"item {number}", _object(f"{name}: item {number}", item)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {number}", _object(f"{name}:{number}", _parsed(f"{name}:{number}", line))


def _whole(name: str, text: str) -> list[Any] | None:
    """The items of a text that is one JSON value; None if it is lines."""
    start = text[:100_000].lstrip()
    if not start.startswith("[") and '"qa_pairs"' not in start and '"paragraphs"' not in start:
        return None
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
        match value:
            case list():
                return value
            case {"data": [{"paragraphs": [*_]}, *_] as articles}:  # SQuAD
                paragraphs = [each for article in articles for each in article["paragraphs"]]
                return [{"context": each.get("context"), **asked} for each in paragraphs for asked in each["qas"]]
            case dict() if all("qa_pairs" in passage for passage in value.values()):  # DROP
                return [{"passage": one.get("passage"), **pair} for one in value.values() for pair in one["qa_pairs"]]
    except ColumnError as error:
        raise GraftError(f"{name}: {error}") from None
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):  # not JSON, or of another form
        pass
    return None


def _parsed(where: str, line: str) -> Any:
    try:
        return json.loads(line, object_pairs_hook=_unique_keys)
    except ColumnError as error:
        raise GraftError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:  # ValueError: also a number of more than 4300 digits
        detail = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise GraftError(f"{where}: not JSON: {detail}; {_remedy(line)}") from None


def _remedy(line: str) -> str:
    """What to do with a line that is not JSON."""
    begin = line.lstrip()[:1]
    if line.strip() in ("{", "["):
        return "write one object on each line: jq -c . FILE > NEW.jsonl"
    if "\r" in line.strip():
        return "lines end in \\n: tr '\\r' '\\n' < FILE > NEW.jsonl"
    if begin == "<":
        return "this is a page of HTML; download the file itself"
    if line.startswith("version https://git-lfs"):
        return "this is a pointer of Git LFS; run: git lfs pull"
    if begin not in ("{", "[") and ("," in line or "\t" in line):
        return f"if this is a table, convert it: {_PANDAS.format('csv', 'FILE', 'NEW')}"
    return "fix the line"


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; Python would keep the last value of a repeated key in silence."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ColumnError(ascii(twice)[1:-1][:40], "twice in one object; remove one of the two")
    return row


def _object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        example = '{"question": …, "answer": …}'
        raise GraftError(f"{where}: {kind_of(value)}, not an object; write {example} on every line")
    return value


def where_of(name: str, place: str) -> str:
    """A place from `rows_of` as errors have it: `file.jsonl:3`, or `file.json: item 3`."""
    return f"{name}:{place.removeprefix('line ')}" if place.startswith("line") else f"{name}: {place}"
