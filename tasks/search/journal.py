"""What a search has done so far, kept on disk so that a killed one goes on where it stopped.

The unit is the batch: completions that the policy writes together, and what running them gave. A smaller one would
change what is decoded together and with it the last digits, a larger one would lose more. A file is named by all that
the result depends on and a batch in it by its requests, so what is read back is what would be computed again.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from tasks.artifacts import append_text, digest_text
from tasks.model.sampling.sampler import Request
from tasks.records import Completion, Record, Result


class EvaluatedCompletion(Record):
    """A completion, and what it returned on the problem and its siblings."""

    completion: Completion
    results: list[Result]


class Batch(Record):
    """A line of the journal. `seconds` is what it took."""

    name: str
    seconds: float
    written: list[EvaluatedCompletion]


class Journal:
    """The batches of one search. Nobody else may write to it at the same time."""

    def __init__(self, path: Path) -> None:
        """Read what an earlier search has left; a line that is torn or damaged counts as not there."""
        self._path = path
        self._batches = {batch.name: batch for batch in _intact_batches(path)}

    @property
    def completions(self) -> int:
        """So many need not be written again."""
        return sum(len(batch.written) for batch in self._batches.values())

    def batch(self, name: str) -> Batch | None:
        """The batch of this name if it is done."""
        return self._batches.get(name)

    def add(self, batch: Batch) -> None:
        """Keep a batch; on the disk when this returns."""
        line = batch.model_dump_json()
        append_text(self._path, f"\n{digest_text(line)} {line}")  # "\n" first: what was torn before stays alone
        self._batches[batch.name] = batch


def remove_journals(folder: Path) -> None:
    """For a search that is written: its shards' journals, and what searches with other inputs left beside them."""
    shutil.rmtree(folder, ignore_errors=True)


def batch_name(requests: Sequence[Request]) -> str:
    """A name for the batch of these requests."""
    return digest_text(repr([(request.seed, request.context, request.longest) for request in requests]))


def _intact_batches(path: Path) -> Iterator[Batch]:
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for line in lines:
        digest, _, text = line.decode("utf-8", "replace").partition(" ")
        if digest == digest_text(text):
            with suppress(ValidationError):  # whole, but no batch: written by another version
                yield Batch.model_validate_json(text)
