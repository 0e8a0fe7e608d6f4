"""A line of a file as a format reads it, and what the readers of all formats share."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.evaluators.number import kind_of
from tasks.problems.columns import ColumnError, check_characters
from tasks.problems.variants import QuestionParts
from tasks.programs.operators.question_context import with_context
from tasks.records import PROBLEM_ID, Answer

LONGEST_CONTEXT = 100_000
"""Longest context, in characters."""

_ID = re.compile(PROBLEM_ID)

Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A line as its format reads it."""

    question: str
    answer: Answer  # as written; the evaluator parses it
    used: Sequence[str]  # the columns that these came from, which are not among the fields
    problem_id: str | None = None
    column: str = "answer"  # the answer's, for errors
    parts: QuestionParts | None = None  # of a question of which variants may be asked


@dataclass(frozen=True)
class Format:
    """A format: its name, the evaluator of its benchmark, a test of a line's columns, and the reader of a line.

    `read` raises ColumnError for a line that does not fit, KeyError with the name of a column that it lacks, and
    TypeError, AttributeError or ValueError for a list or an object of another form.
    """

    name: str
    evaluator: str
    fits: Callable[[Columns], bool]
    read: Callable[[Columns], Row]


def needs(*names: str) -> Callable[[Columns], bool]:
    """A test of a line: it has these columns."""
    return lambda row: all(name in row for name in names)


def has_any(row: Columns, *names: str) -> bool:
    """Whether a line has one of the columns."""
    return any(name in row for name in names)


def texts_of(column: str, values: Any) -> list[str]:
    """A column's list of texts. Raises ColumnError for anything else."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ColumnError(column, f"{kind_of(values)}, not a list of texts; fix the line")
    return values


def in_context(text: str, question: str) -> str:
    """The question after its context. Raises ColumnError for a context that is too long."""
    if len(text) > LONGEST_CONTEXT:
        raise ColumnError("context", f"{len(text)} characters, more than {LONGEST_CONTEXT}; shorten it")
    check_characters("context", text)
    return with_context(text, question)


def id_in(row: Columns) -> str | None:
    """The id of a line of a published data set; None without one."""
    names = ("id", "_id", "query_id", "ID", "question_id")
    return next((id_of(row[name]) for name in names if row.get(name) is not None), None)


def id_of(value: Any) -> str | None:
    """An id of a published data set in the characters of a problem_id; None without one."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    name = re.sub(r"[^A-Za-z0-9._-]", "-", str(value)).lstrip(".-")[:100]
    return name if _ID.fullmatch(name) else None
