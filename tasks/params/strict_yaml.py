"""YAML as plain data, by ruamel's safe loader: everything else is an error of one line that names file and line.

Aliases are refused, since a few lines of them expand to gigabytes where a value is copied or printed.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks.errors import GraftError

DEEPEST = 40
"""Most levels of nesting; the project's files have four."""


def load_yaml(where: Path | str, text: str, loader: Any = None) -> dict[Any, Any]:
    """Parse a text that is a mapping; pass a ruamel.yaml.YAML as `loader` to keep comments and style.

    Raises GraftError that names the file and line.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        _check_is_flat(where, text)
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
def _check_is_flat(where: Path | str, text: str) -> None:
    """Raise GraftError before the parser builds what would never end: it recurses, and a library expands aliases."""
    from ruamel.yaml import YAML
    from ruamel.yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, SequenceEndEvent, SequenceStartEvent

    depth = 0
    for event in YAML(typ="safe").parse(text):
        depth += isinstance(event, SequenceStartEvent | MappingStartEvent)
        depth -= isinstance(event, SequenceEndEvent | MappingEndEvent)
        if depth > DEEPEST or isinstance(event, AliasEvent):
            what = f"more than {DEEPEST} levels of nesting" if depth > DEEPEST else f"the alias *{event.anchor}"
            raise GraftError(f"{where}:{event.start_mark.line + 1}: {what}; write the value itself")


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())
