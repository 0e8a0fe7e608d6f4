"""Files of metrics: JSON objects of numbers, CSV tables of optimiser steps, and the rows of an unfinished table."""

import csv
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from tasks.artifacts import first_problem, open_file_itself
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.redaction import redacted

logger = logging.getLogger(__name__)


def read_metrics(layout: Layout, stage_id: str) -> dict[str, float]:
    """The metrics of a stage (`search@1`). Raises GraftError if the file is not an object of finite numbers."""
    return read_numbers(layout.metrics(stage_id), stage_id)


def read_numbers(path: Path, stage_id: str) -> dict[str, float]:
    """A JSON object of finite numbers. Raises GraftError that names the stage to run."""
    try:
        return _NUMBERS.validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = first_problem(error) if isinstance(error, ValidationError) else error
        raise GraftError(f"{path}: no metrics ({reason}); run graft stage {stage_id}") from None


_NUMBERS = TypeAdapter(dict[str, FiniteFloat])


def read_table(path: Path) -> list[dict[str, float]]:
    """The rows of a CSV file of numbers, each a dict by column name. Raises ValueError for any other file."""
    with path.open(encoding="utf-8", newline="") as lines:
        try:
            return [{name: float(value) for name, value in line.items()} for line in csv.DictReader(lines)]
        except (TypeError, csv.Error) as error:  # a line has more or fewer fields than the first, or is too long
            raise ValueError(str(error)) from None


class LiveRows:
    """The rows of a table that a stage has not finished, a JSON object a line: for the tracker, no stage reads them.

    One process writes. A file that cannot be written is a warning: the stage goes on without it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writable = True

    def begin(self, rows: Sequence[dict[str, float]]) -> None:
        """Replace what an earlier execution left by the rows that this one goes on after."""
        self._write("w", rows)

    def add(self, row: dict[str, float]) -> None:
        """Append a row to the file."""
        self._write("a", [row])

    def read(self, start: int) -> list[dict[str, float]]:
        """The complete rows from number `start`, counted from 0."""
        if not self._path.exists():
            return []
        *lines, _torn = self._path.read_bytes().split(b"\n")
        return [json.loads(line) for line in lines[start:]]

    def remove(self) -> None:
        """Remove the file, if there is one."""
        self._path.unlink(missing_ok=True)

    def _write(self, mode: str, rows: Sequence[dict[str, float]]) -> None:
        if not self._writable:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, mode, encoding="utf-8", opener=open_file_itself) as stream:
                stream.write("".join(json.dumps(row) + "\n" for row in rows))
        except (OSError, GraftError) as error:
            self._writable = False
            logger.warning(
                "%s: not written (%s); the tracker gets these rows at the end of the stage", self._path, error
            )


def flatten(params: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested params by dotted name, values as redacted text, for the tracker and the HTML pages."""
    flat: dict[str, str] = {}
    for name, value in params.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = redacted(value if isinstance(value, str) else json.dumps(value, default=str))
    return flat
