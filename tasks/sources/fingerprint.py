"""Fingerprint of a stage's inputs: an unfinished stage is resumed only if its fingerprint is equal."""

from collections.abc import Iterable
from pathlib import Path

from tasks.artifacts import digest_path, digest_text
from tasks.params.params import Params
from tasks.sources.process_sources import source_digests


def fingerprint(reads: Iterable[Path], params: Params, round: int, *more: str | int) -> str:
    """Digest of the files and folders that a stage reads, its params, its round, all sources, and further values."""
    return digest_text(repr([[digest_path(path) for path in reads], source_digests(), params, round, *more]))
