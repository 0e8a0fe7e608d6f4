"""Metrics of a stage and tables of steps, as files: JSON objects of numbers, and CSV."""

import csv
import json
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.redaction import redacted


def read_metrics(layout: Layout, address: str) -> dict[str, float]:
    """The numbers of a stage by its address (`search@1`). Raises GraftError where the file is not such numbers."""
    return read_numbers(layout.metrics(address), address)


def read_numbers(path: Path, address: str) -> dict[str, float]:
    """A file of numbers by name. Raises GraftError that says which stage writes it."""
    try:
        return _NUMBERS.validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise GraftError(f"{path}: no metrics ({_why(error)}); run graft stage {address}") from None


_NUMBERS = TypeAdapter(dict[str, FiniteFloat])


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return ": ".join([*map(str, first["loc"]), first["msg"]])
    return str(error)


def read_table(path: Path) -> list[dict[str, float]]:
    """A csv file of numbers, a dict for each line by the names in the first. Raises ValueError where it is not such."""
    with path.open(encoding="utf-8", newline="") as lines:
        try:
            return [{name: float(value) for name, value in line.items()} for line in csv.DictReader(lines)]
        except (TypeError, csv.Error) as error:  # a line is longer or shorter than the first, or endless
            raise ValueError(str(error)) from None


def flatten(params: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested params by their dotted names, values as text, without secrets: it goes to MLflow and onto pages."""
    flat: dict[str, str] = {}
    for name, value in params.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = redacted(value if isinstance(value, str) else json.dumps(value, default=str))
    return flat
