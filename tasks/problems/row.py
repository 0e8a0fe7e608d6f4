"""A line of a file of problems: its columns with their bounds, and what the readers of all formats share."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tasks.evaluators.number import kind_of
from tasks.evaluators.scores import Evaluator
from tasks.problems.variants import QuestionParts
from tasks.programs.operators.builtin import with_context
from tasks.programs.sandbox.run_program import is_unicode
from tasks.records.problems import PROBLEM_ID, Answer, Fields

LONGEST = 1 << 22
"""Most bytes of UTF-8 JSON in the columns of one line, 4 MiB: every round stores them once per problem."""

DEEPEST = 32
"""Most levels of lists and objects in a column: the reader of JSON lines stops at a few hundred."""

LONGEST_NAME = 100
"""Longest name of a column, in characters."""

LONGEST_CONTEXT = 100_000
"""Longest context, in characters."""


class ColumnError(ValueError):
    """A column that cannot be used, with the reason and the remedy."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"{column}: {reason}")
        self.column, self.reason = column, reason


class Columns(dict[str, Any]):
    """The columns of a line. `used`: those that were read, which are not among the fields of its problem."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        super().__init__(row)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.used.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.used.add(name)
        return super().get(name, default)

    def peek(self, name: str) -> Any:
        """The value of a column, which stays among the fields; None without it."""
        return super().get(name)


class Row(NamedTuple):
    """A line as its format reads it."""

    question: str
    answer: Answer  # as written; the evaluator parses it
    column: str = "answer"  # the answer's, for errors
    parts: QuestionParts | None = None  # of a question of which variants may be asked
    problem_id: str | None = None  # where it is more than the text of a column


@dataclass(frozen=True)
class Format:
    """A format: its name, the evaluator of its benchmark, a test of a line, the reader of a line, its columns of ids.

    `read` raises ColumnError for a line that does not fit, KeyError with the name of a column that it lacks, and
    TypeError, AttributeError or ValueError for a list or an object of another form.
    """

    name: str
    evaluator: str
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Columns], Row]
    ids: tuple[str, ...] = ("id", "_id", "query_id", "ID", "question_id")
    rules: Evaluator | None = None  # of an evaluator that is an environment's own, and none of the built-in ones

    def problem_id(self, row: Columns) -> str | None:
        """The line's id in the characters of a problem_id; None without one."""
        value = next((row[name] for name in self.ids if row.get(name) is not None), None)
        if isinstance(value, bool) or not isinstance(value, str | int):
            return None
        text = re.sub(r"[^A-Za-z0-9._-]", "-", str(value)).lstrip(".-")[:100]
        return text if re.fullmatch(PROBLEM_ID, text) else None


def needs(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """A test of a line: it has these columns."""
    return lambda row: all(name in row for name in names)


def other_columns(row: Mapping[str, Any], used: Collection[str]) -> Fields:
    """The columns of a row without those that became question, answer, id, context or siblings.

    Raises ColumnError for one that is too large, nested too deep, not finite or no Unicode.
    """
    fields = {name: value for name, value in row.items() if name not in used}
    sizes = {name: _size(name, value) for name, value in fields.items()}
    if sum(sizes.values()) > LONGEST:
        largest = max(sizes, key=sizes.__getitem__)
        raise ColumnError(
            largest,
            f"{sizes[largest]} of {sum(sizes.values())} bytes; the columns of a line may have {LONGEST}: cut it",
        )
    return fields


def check_text(column: str, text: Any) -> str:
    """The text of a column, stripped. Raises ColumnError if it is none, empty, too long or no Unicode."""
    if not isinstance(text, str):
        raise ColumnError(column, f"{kind_of(text)}, not a text; write it in quotes")
    if not text.strip():
        raise ColumnError(column, "empty; write it or remove the line")
    if len(text) > LONGEST:
        raise ColumnError(column, f"{len(text)} characters, more than {LONGEST}; shorten it")
    check_characters(column, text)
    return text.strip()


def check_characters(column: str, value: Any) -> None:
    """Raise ColumnError for a text with a NUL character or that is no Unicode, also in a list or an object."""
    if isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            check_characters(column, each)
    elif isinstance(value, str) and not is_unicode(value):
        raise ColumnError(column, "holds half of a surrogate pair; save the line as proper Unicode")
    elif isinstance(value, str) and "\0" in value:
        raise ColumnError(column, "holds a NUL character (U+0000), which no text has; remove it")


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


def _size(name: str, value: Any) -> int:
    if len(name) > LONGEST_NAME or not is_unicode(name):
        raise ColumnError(ascii(name)[:40], f"no name of a column; use Unicode of at most {LONGEST_NAME} characters")
    if _is_deeper(value, DEEPEST):
        raise ColumnError(name, f"more than {DEEPEST} levels of lists and objects; flatten it")
    try:
        return len(name) + len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except UnicodeEncodeError:
        raise ColumnError(name, "holds half of a surrogate pair; save the line as proper Unicode") from None
    except ValueError:
        raise ColumnError(name, "holds a number that is not finite; write null") from None


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, list | dict):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)
