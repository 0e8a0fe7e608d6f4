"""Lookup of the problem files: `problems.path` is a file or a folder of files."""

from pathlib import Path

from tasks.errors import GraftError


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
        raise GraftError(f"problems.path: no *.jsonl in the folder {path}; put one there")
    return files
