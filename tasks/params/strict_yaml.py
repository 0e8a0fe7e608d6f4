"""YAML as plain data: mappings, lists and values, written out. All that makes more of it is refused by file and line.

Tags (`!!python/object`, `!anything`) would name what to build. Anchors and aliases let a few lines stand for
gigabytes, and merge keys hide which value counts. None of our files needs them, so that none may hold any.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks.errors import GraftError

DEEPEST = 40
"""Levels of nesting; ours have four."""

LONGEST = 50_000_000
"""Signs of a file; a dvc.lock of a hundred rounds has a million."""


def load_yaml(where: Path | str, text: str, loader: Any = None) -> dict[Any, Any]:
    """The mapping that a text is, by `loader` (a ruamel.yaml.YAML) where comments and style are to be kept.

    Raises GraftError that names the file and line.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        _refuse_what_is_not_plain(where, text)
        document = (loader or YAML(typ="safe")).load(text)
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise GraftError(f"{where}{line}: not YAML: {_one_line(error.problem)}; mend the line") from None
    except YAMLError as error:  # a sign that no text may hold
        raise GraftError(f"{where}: not YAML: {_one_line(error)}; restore the file") from None
    except (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        # ruamel's own for values that only look like a number or a date: 0x, 2026-13-45, a number of 5000 digits
        raise GraftError(f"{where}: not YAML: {_one_line(error)}; mend that value") from None
    if not isinstance(document, dict):
        name = Path(where).name
        raise GraftError(f"{where}: holds nothing; restore the file, for instance with: git checkout {name}")
    return document


@lru_cache(maxsize=8)  # of what is not refused; the same few files are read several times in a run
def _refuse_what_is_not_plain(where: Path | str, text: str) -> None:
    from ruamel.yaml import YAML
    from ruamel.yaml.events import MappingEndEvent, MappingStartEvent, SequenceEndEvent, SequenceStartEvent

    if len(text) > LONGEST:
        raise GraftError(f"{where}: {len(text)} signs, more than any such file has; restore the file")
    depth = 0
    for event in YAML(typ="safe").parse(text):
        depth += isinstance(event, SequenceStartEvent | MappingStartEvent)
        depth -= isinstance(event, SequenceEndEvent | MappingEndEvent)
        if (found := _more_than_data(event)) or depth > DEEPEST:
            found = found or f"more than {DEEPEST} levels of nesting"
            raise GraftError(
                f"{where}:{event.start_mark.line + 1}: {found}: this file is data, of plain values alone; write the "
                "value itself there"
            )


def _more_than_data(event: Any) -> str | None:
    """What of YAML an event is that is refused, None for plain data."""
    from ruamel.yaml.events import AliasEvent, NodeEvent, ScalarEvent

    if isinstance(event, AliasEvent):
        return f"the alias *{event.anchor}"
    if isinstance(event, NodeEvent) and event.anchor is not None:
        return f"the anchor &{event.anchor}"
    if tag := getattr(event, "tag", None):
        return f"the tag {str(tag).replace('tag:yaml.org,2002:', '!!')}"
    if isinstance(event, ScalarEvent) and not event.style and event.value == "<<":
        return "a merge key"
    return None


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())
