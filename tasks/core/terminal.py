"""Text and tables for the terminal: remarks of a stage, control characters replaced, one style of table."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unicodedata import category

from tasks.errors import GraftError, one_line
from tasks.redaction import redacted

if TYPE_CHECKING:
    from rich.table import Table


logger = logging.getLogger(__name__)


def print_remark(line: str) -> None:
    """Print a line on stderr, and log it: `graft retrain` sends what a stage logs to Prefect."""
    print(visible(line), file=sys.stderr, flush=True)
    logger.info("%s", line)


def print_warning(line: object) -> None:
    """Print a line on stderr; texts of others in it neither break it nor show a secret."""
    print(f"warning: {one_line(redacted(str(line)))}", file=sys.stderr, flush=True)


@contextmanager
def warn_of_errors(lost: str) -> Iterator[None]:
    """A GraftError in the block is a warning that begins with what is lost by it."""
    try:
        yield
    except GraftError as error:
        print_warning(f"{lost}: {error}")


def printable(text: str, kept: str = "", replacement: str = "") -> str:
    """`text` with every character that could control a terminal replaced, except those in `kept`.

    Characters that change the direction of a line are replaced, too; spaces of other widths become plain ones.
    """
    return "".join(c if c.isprintable() or c in kept else " " if category(c) == "Zs" else replacement for c in text)


def visible(text: str) -> str:
    """`text` with its lines, control characters replaced by `\ufffd`."""
    return printable(text, kept="\n\t", replacement="\ufffd")


def print_text(text: object) -> None:
    """Print a text that may contain texts of others, at once."""
    print(visible(str(text)), flush=True)


def shortened(text: str, width: int) -> str:
    """`text` cut to `width` characters, the last of them `…`."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def answer_text(answer: Any) -> str:
    """An expected answer, any JSON value, for people: 72, Paris, "Paris | in Paris"; at most 200 characters."""
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        return f"{answer:g}"
    if isinstance(answer, list):
        return shortened(" | ".join(map(answer_text, answer)), 200)
    return shortened(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False), 200)


def make_table(*titles: str, right: bool = False, wrap: str = "") -> "Table":
    """A Rich table without rows, its first column aligned left. `wrap`: title of the column that may wrap."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if right and number else "left", no_wrap=title != wrap)
    return table
