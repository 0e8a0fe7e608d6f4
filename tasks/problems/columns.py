"""Columns of a line that Graft keeps as they are: `Problem.fields`, with their bounds."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from tasks.evaluators.number import kind_of
from tasks.programs.sandbox.run_program import is_unicode
from tasks.records import Fields

LONGEST = 1 << 22
"""Most bytes of UTF-8 JSON in the columns of one line, 4 MiB: every round stores them once per problem."""

DEEPEST = 32
"""Most levels of lists and objects in a column: the reader of JSON lines stops at a few hundred."""

LONGEST_NAME = 100
"""Longest name of a column, in characters."""


class ColumnError(ValueError):
    """A column that cannot be used, with the reason and the remedy."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"{column}: {reason}")
        self.column, self.reason = column, reason


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


def check_text(column: str, text: Any, longest: int = LONGEST) -> str:
    """The text of a column, stripped. Raises ColumnError if it is none, empty, too long or no Unicode."""
    if not isinstance(text, str):
        raise ColumnError(column, f"{kind_of(text)}, not a text; write it in quotes")
    if not text.strip():
        raise ColumnError(column, "empty; write it or remove the line")
    if len(text) > longest:
        raise ColumnError(column, f"{len(text)} characters, more than {longest}; shorten it")
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
