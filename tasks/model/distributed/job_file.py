"""What the processes of a stage are told to compute, and what one of them answers that could not: files of JSON.

Both sides are ours, but a file can be written by others, too: what is read here is data and runs nothing but a
function of ours by its name.
"""

import json
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from pydantic import TypeAdapter

from tasks.errors import GraftError, TransientError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.params.sections import Section

Work = Callable[[Layout, Params, int], None]
"""What of a stage is computed in all processes: a function of a module, which each of them imports."""


OURS = {"GraftError": GraftError, "TransientError": TransientError}


def write_order(path: Path, work: Work, layout: Layout, params: Params, round: int) -> None:
    """`params` may be those alone that a stage sees."""
    order = {
        "work": f"{work.__module__}:{work.__qualname__}",
        "root": str(layout.root),
        "params": params.model_dump(mode="json"),
        "round": round,
    }
    path.write_text(json.dumps(order), encoding="utf-8")


def read_order(path: Path) -> tuple[Work, Layout, Params, int]:
    """The other side of `write_order`. Raises GraftError where it names no function of ours."""
    order = json.loads(path.read_text(encoding="utf-8"))
    module, _, name = order["work"].partition(":")
    work = getattr(import_module(module), name, None) if module.startswith("tasks.") and name.isidentifier() else None
    if not callable(work):
        raise GraftError(f"{path}: work: {order['work']!r} is no function of the stages; run the stage again")
    return work, Layout(Path(order["root"])), restored(Params, order["params"]), order["round"]


def restored(section: type[Section], values: dict[str, Any]) -> Any:
    """A section from what `model_dump` gave of it, of which it may have been a part only."""
    fields = section.model_fields
    return section.model_construct(**{name: _field(fields[name].annotation, value) for name, value in values.items()})


def _field(annotation: Any, value: Any) -> Any:
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    section = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)), None)
    if section is not None and isinstance(value, dict):
        return restored(section, value)
    return TypeAdapter(annotation).validate_python(value)


def told(error: Exception) -> str:
    """An error as the process that waits reads it."""
    about: dict[str, Any] = {"kind": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
    if isinstance(error, OSError) and error.errno is not None:
        about |= {"kind": "OSError", "errno": error.errno, "strerror": error.strerror, "filename": str(error.filename)}
    return json.dumps(about)


def heard(text: str) -> Exception:
    """What `told` was told of, its traceback in a note: GraftError and OSError as such, else a RuntimeError."""
    about = json.loads(text)
    error: Exception
    if about["kind"] in OURS:
        error = OURS[about["kind"]](about["message"])
    elif "errno" in about:
        error = OSError(about["errno"], about["strerror"], about["filename"])
    else:
        error = RuntimeError(f"{about['kind']}: {about['message']}")
    error.add_note(about["traceback"])
    return error
