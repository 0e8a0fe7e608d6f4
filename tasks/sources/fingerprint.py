"""A name for all that a stage's result depends on: only under the same name is what it left unfinished gone on with."""

from collections.abc import Iterable
from pathlib import Path

from tasks.artifacts import digest_path, digest_text
from tasks.params.params import Params
from tasks.sources.process_sources import sources


def fingerprint(reads: Iterable[Path], params: Params, round: int, *more: str | int) -> str:
    """Of files and folders that a stage reads, its params, its round, all sources, and whatever else it names."""
    return digest_text(repr([[digest_path(path) for path in reads], sources(), params, round, *more]))
