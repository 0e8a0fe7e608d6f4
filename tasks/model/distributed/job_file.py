"""Job and error files of a stage in several processes, as JSON.

Reading one runs no code except a function of `tasks` by its name.
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
"""The part of a stage that all processes compute: a function of a module that each of them imports."""


ERROR_TYPES = {"GraftError": GraftError, "TransientError": TransientError}


def write_job(path: Path, work: Work, layout: Layout, params: Params, round: int) -> None:
    """`params` may be restricted to those that a stage declares."""
    job = {
        "work": f"{work.__module__}:{work.__qualname__}",
        "root": str(layout.root),
        "params": params.model_dump(mode="json"),
        "round": round,
    }
    path.write_text(json.dumps(job), encoding="utf-8")


def read_job(path: Path) -> tuple[Work, Layout, Params, int]:
    """Read what `write_job` wrote. Raises GraftError where it names no function of `tasks`."""
    job = json.loads(path.read_text(encoding="utf-8"))
    module, _, name = job["work"].partition(":")
    work = getattr(import_module(module), name, None) if module.startswith("tasks.") and name.isidentifier() else None
    if not callable(work):
        raise GraftError(f"{path}: work: {job['work']!r} is no function of tasks; run the stage again")
    return work, Layout(Path(job["root"])), restore_section(Params, job["params"]), job["round"]


def restore_section(section: type[Section], values: dict[str, Any]) -> Any:
    """A section from its `model_dump`, which may be partial."""
    fields = section.model_fields
    return section.model_construct(**{name: _field(fields[name].annotation, value) for name, value in values.items()})


def _field(annotation: Any, value: Any) -> Any:
    types = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    section = next((each for each in types if isinstance(each, type) and issubclass(each, Section)), None)
    if section is not None and isinstance(value, dict):
        return restore_section(section, value)
    return TypeAdapter(annotation).validate_python(value)


def error_to_json(error: Exception) -> str:
    """An error for the waiting process."""
    fields: dict[str, Any] = {"kind": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
    if isinstance(error, OSError) and error.errno is not None:
        fields |= {"kind": "OSError", "errno": error.errno, "strerror": error.strerror, "filename": str(error.filename)}
    return json.dumps(fields)


def error_from_json(text: str) -> Exception:
    """The error of `error_to_json`, its traceback in a note: GraftError and OSError as such, else a RuntimeError."""
    fields = json.loads(text)
    error: Exception
    if fields["kind"] in ERROR_TYPES:
        error = ERROR_TYPES[fields["kind"]](fields["message"])
    elif "errno" in fields:
        error = OSError(fields["errno"], fields["strerror"], fields["filename"])
    else:
        error = RuntimeError(f"{fields['kind']}: {fields['message']}")
    error.add_note(fields["traceback"])
    return error
