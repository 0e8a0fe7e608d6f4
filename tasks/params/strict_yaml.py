"""Strict YAML: mappings, lists and plain values only; everything else is an error that names file and line.

Tags (`!!python/object`, `!anything`) name objects to construct, anchors and aliases let a few lines expand to
gigabytes, and merge keys hide which value applies. No file of a project needs them, so they are not allowed.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks.errors import GraftError

DEEPEST = 40
"""Most levels of nesting; the project's files have four."""

LONGEST = 50_000_000
"""Most characters of a file; a dvc.lock of a hundred rounds has a million."""


def load_yaml(where: Path | str, text: str, loader: Any = None) -> dict[Any, Any]:
    """Parse a text that is a mapping; pass a ruamel.yaml.YAML as `loader` to keep comments and style.

    Raises GraftError that names the file and line.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        _check_is_plain(where, text)
        document = (loader or YAML(typ="safe")).load(text)
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise GraftError(f"{where}{line}: not YAML: {_one_line(error.problem)}; fix the line") from None
    except YAMLError as error:  # an invalid character
        raise GraftError(f"{where}: not YAML: {_one_line(error)}; restore the file") from None
    except (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        # raised by ruamel for values that resemble a number or a date: 0x, 2026-13-45, a number of 5000 digits
        raise GraftError(f"{where}: not YAML: {_one_line(error)}; fix that value") from None
    if not isinstance(document, dict):
        name = Path(where).name
        raise GraftError(f"{where}: holds nothing; restore the file, for instance with: git checkout {name}")
    return document


def value_at(document: Any, parts: Iterable[str]) -> Any:
    """The value of a parsed file at the parts of a dotted key; None where there is none."""
    for part in parts:
        document = document.get(part) if isinstance(document, Mapping) else None
    return document


@lru_cache(maxsize=8)  # the same few files are read several times in a run
def _check_is_plain(where: Path | str, text: str) -> None:
    from ruamel.yaml import YAML
    from ruamel.yaml.events import MappingEndEvent, MappingStartEvent, SequenceEndEvent, SequenceStartEvent

    if len(text) > LONGEST:
        raise GraftError(f"{where}: {len(text)} characters, more than any such file has; restore the file")
    depth = 0
    for event in YAML(typ="safe").parse(text):
        depth += isinstance(event, SequenceStartEvent | MappingStartEvent)
        depth -= isinstance(event, SequenceEndEvent | MappingEndEvent)
        if (feature := _disallowed_feature(event)) or depth > DEEPEST:
            feature = feature or f"more than {DEEPEST} levels of nesting"
            raise GraftError(
                f"{where}:{event.start_mark.line + 1}: {feature}: only plain values are allowed here; write the value "
                "itself"
            )


def _disallowed_feature(event: Any) -> str | None:
    """The YAML feature of an event that is not allowed; None for plain data."""
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
