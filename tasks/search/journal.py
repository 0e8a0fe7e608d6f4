"""Journal of finished search batches on disk: a search that was killed resumes after the last one.

The unit is a batch of completions that are decoded together, with their results; splitting it would change the last
digits of the log-probabilities. The file name is a digest of all inputs of the search and the batch name a digest of
its requests, so what is read back equals what would be computed.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from tasks.artifacts import append_text, digest_text
from tasks.model.sampling.sampler import Request
from tasks.records.programs import Result
from tasks.records.record import Record
from tasks.records.search import Completion


class EvaluatedCompletion(Record):
    """A completion with its results on the problem and its siblings."""

    completion: Completion
    results: list[Result]


class FinishedBatch(Record):
    """A line of the journal."""

    name: str
    written: list[EvaluatedCompletion]


class Journal:
    """The batches of one search; only one process may write to a journal."""

    def __init__(self, path: Path) -> None:
        """Read the batches of an interrupted search; torn or damaged lines are skipped."""
        self._path = path
        self._batches = {batch.name: batch for batch in _intact_batches(path)}

    @property
    def completions(self) -> int:
        """Number of completions in the journal."""
        return sum(len(batch.written) for batch in self._batches.values())

    def batch(self, name: str) -> FinishedBatch | None:
        """The batch of this name, or None."""
        return self._batches.get(name)

    def add(self, batch: FinishedBatch) -> None:
        """Append a batch and flush it to disk."""
        line = batch.model_dump_json()
        append_text(self._path, f"\n{digest_text(line)} {line}")  # "\n" first: a torn line before it stays separate
        self._batches[batch.name] = batch


def batch_name(requests: Sequence[Request]) -> str:
    """The digest of a batch's requests."""
    return digest_text(repr([(request.seed, request.context, request.max_tokens) for request in requests]))


def _intact_batches(path: Path) -> Iterator[FinishedBatch]:
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for line in lines:
        digest, _, text = line.decode("utf-8", "replace").partition(" ")
        if digest == digest_text(text):
            with suppress(ValidationError):  # intact, but written by another version
                yield FinishedBatch.model_validate_json(text)
