"""DVC's files parsed once for each of their texts.

DVC reads `dvc.lock` again for each stage that it looks at. With sources as dependencies that is a file of ten thousand
lines, and parsing it took two thirds of a run in which nothing had to be computed.
"""

import copy
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from dvc.fs import LocalFileSystem
from dvc.utils import strictyaml

Load = Callable[..., tuple[Any, str]]


def remember_parsed() -> None:
    """From now on `dvc.utils.strictyaml.load` of this process parses no text of a file twice in a row."""
    if not hasattr(strictyaml.load, "__wrapped__"):
        strictyaml.load = remembering(strictyaml.load)


def remembering(load: Load) -> Load:
    """`load`, but where the file's text is that of the last time, its result is a copy of what came of it then."""
    known: dict[tuple[str, int], tuple[str, Any]] = {}

    @wraps(load)
    def remembered(
        path: str, schema: Any = None, fs: Any = None, encoding: str = "utf-8", round_trip: bool = False
    ) -> tuple[Any, str]:
        local = fs is None or isinstance(fs, LocalFileSystem)
        if round_trip or not local or not Path(path).is_file():
            return load(path, schema, fs, encoding, round_trip)
        key = (str(path), id(schema))  # DVC has two of them, each made once
        text, data = known.get(key, (None, None))
        if text is None or text.encode(encoding) != Path(path).read_bytes():
            data, text = load(path, schema, fs, encoding)
            known[key] = (text, data)
        return copy.deepcopy(data), text

    return remembered
