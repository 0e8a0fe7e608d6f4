"""Lookup of the problem files: `problems.path` is a file or a folder of files; and their texts."""

from pathlib import Path

from tasks.artifacts import read_text
from tasks.errors import GraftError

PANDAS = """python -c "import pandas; pandas.read_{}('{}').to_json('{}.jsonl', orient='records', lines=True)\""""
"""Command that converts a table: its kind, its name and the new name."""

_BINARY = (
    (b"PAR1", "a Parquet file", PANDAS.format("parquet", "{0}", "{1}")),
    (b"ARROW1", "an Arrow file", PANDAS.format("feather", "{0}", "{1}")),
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

    Raises GraftError if there is none, or if DVC tracks one that is not pulled.
    """
    place = root / path
    if place.is_file():
        return {path: place}
    if not place.is_dir():
        raise GraftError(
            f"problems.path: no file {path}; name a jsonl file, for instance examples/problems.jsonl, or a folder"
        )
    found = {file.relative_to(place) for pattern in ("*.jsonl", "*.jsonl.dvc") for file in place.rglob(pattern)}
    seen = sorted(file.as_posix() for file in found if not any(part.startswith(".") for part in file.parts))
    for name in seen:
        if name.endswith(".dvc") and not (place / name.removesuffix(".dvc")).is_file():
            raise GraftError(f"{Path(path) / name}: its data is not here; run: dvc pull {Path(path) / name}")
    files = {f"{Path(path) / name}": place / name for name in seen if name.endswith(".jsonl")}
    if not files:
        others = sorted(file.name for file in place.iterdir() if file.is_file() and not file.name.startswith("."))
        there = f"; for how to convert {others[0]!r:.80}, run graft problems on it" if others else ""
        raise GraftError(f"problems.path: no *.jsonl in the folder {path}; put one there{there}")
    return files


def problem_text(name: str, file: Path) -> str:
    """The text of a problem file. Raises GraftError for a file of another kind, with the command that converts it."""
    with file.open("rb") as opened:
        begin = opened.read(16)
    for magic, kind, command in _BINARY:
        if begin.startswith(magic):
            base = name.removesuffix(file.suffix).removesuffix(".jsonl").removesuffix(".json")
            raise GraftError(f"{name}: {kind}, not JSON lines; convert it: {command.format(name, base)}")
    return read_text(file)
