"""`dvc.lock` a stage at a time: its entry is a text of its own, so that a run need not parse and write all the others.

DVC reads the whole file and writes it anew after each stage, which took half of the time that stages of seconds did.
A text that is not as DVC writes it (edited by hand, in conflict) is left to DVC itself.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from dvc.dvcfile import LOCK_FILE
from dvc.utils.serialize import YAMLFileCorruptedError, dumps_yaml, modify_yaml
from dvc.utils.serialize._yaml import parse_yaml

from tasks.artifacts import write_text

HEAD = "schema: '2.0'\nstages:\n"
ENTRY = re.compile(r"^  ([A-Za-z][\w@.-]*):\n(?:   .*\n)+", re.MULTILINE | re.ASCII)


def entries(text: str) -> dict[str, str] | None:
    """Address → its lines, of the text of a `dvc.lock`; None where it is not as DVC writes it."""
    found = {match[1]: match[0] for match in ENTRY.finditer(text)}
    return found if text == HEAD + "".join(found.values()) else None


def parse_lock(text: str) -> dict[str, Any] | None:
    """What DVC's parser makes of the text, not to be changed; None where it is to be asked itself."""
    found = entries(text)
    try:
        return None if found is None else {"schema": "2.0", "stages": {name: _value(found[name]) for name in found}}
    except YAMLFileCorruptedError:
        return None


@contextmanager
def modify_lock(path: Any, fs: Any = None) -> Iterator[dict[str, Any]]:
    """`dvc.utils.serialize.modify_yaml`, the same bytes: gives what the file holds and writes what has become of it."""
    text = _text(Path(path))
    before, old = parse_lock(text), entries(text)
    if before is None or old is None:
        with modify_yaml(path, fs) as document:
            yield document
        return
    known = before["stages"]
    document = {**before, "stages": dict(known)} if old else {}
    yield document
    new = (old[name] if value is known.get(name) else _lines(name, value) for name, value in document["stages"].items())
    write_text(Path(path), HEAD + "".join(new))


def _text(path: Path) -> str:
    """Of a `dvc.lock`; of none yet, that of one without entries. Nothing where it is no text, or another file."""
    if path.name != LOCK_FILE:
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return HEAD
    except UnicodeDecodeError:
        return ""


@lru_cache(maxsize=1000)
def _value(lines: str) -> Any:
    """Of one entry."""
    [value] = parse_yaml(lines, "dvc.lock").values()
    return value


def _lines(name: str, value: Any) -> str:
    text: str = dumps_yaml({"stages": {name: value}})
    return text.removeprefix("stages:\n")
