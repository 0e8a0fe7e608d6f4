"""Read, validate and edit `params.yaml`. Errors name the line and, for an unknown param, the closest one."""

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from tasks.artifacts import read_text
from tasks.errors import GraftError
from tasks.params.missing import fill
from tasks.params.params import Params, contradictions
from tasks.params.sections import MOST_ROUNDS, Section
from tasks.params.strict_yaml import load_yaml, value_at
from tasks.params.synonyms import MOVED, synonym_of


def load_params(path: Path) -> Params:
    """Read and validate. Raises GraftError that names the file, the line, the param and the closest valid one."""
    return validate(path, read_text(path))


def restrict(params: Params, keys: Iterable[str]) -> Params:
    """`params` with only the dotted `keys`: reading any other param raises AttributeError.

    A stage gets only the params that `dvc.yaml` lists for it, so that no param can affect a stage without making it
    stale.
    """
    restricted: Params = _restrict(params, sorted(keys))
    return restricted


def overridden(path: Path, text: str, assignments: Iterable[str]) -> tuple[str, "Params", dict[str, tuple[Any, Any]]]:
    """The text of `path` with `key=value` assignments, its params, and the changes, {key: (old, new)}.

    Comments are kept, as `dvc exp run -S` keeps them. `rounds=N` sets both lines of the section. Raises GraftError if a
    key is unknown or a value is out of range.
    """
    assignments = list(assignments)
    if not assignments:  # a round trip that keeps comments is slow
        return text, validate(path, text), {}
    document = load_yaml(path, text, _round_trip_yaml())
    changes: dict[str, tuple[Any, Any]] = {}
    for assignment in assignments:
        key, separator, written = assignment.partition("=")
        if not separator:
            raise GraftError(f"-S {assignment}: not of the form key=value; write for instance -S update.beta=0.05")
        value = _value_of(key, written) if written else ""
        old = _assign(path, document, key.strip(), value)
        if old != value:
            changes[key.strip()] = (old, value)
    stream = StringIO()
    _round_trip_yaml().dump(document, stream)
    params = validate(path, stream.getvalue())
    return stream.getvalue() if changes else text, params, changes


def _restrict(section: Any, keys: list[str]) -> Any:
    heads = sorted({key.partition(".")[0] for key in keys})  # in the same order in every process
    kept: dict[str, Any] = {}
    for head in heads:
        if head not in type(section).model_fields:
            raise GraftError(f"dvc.yaml: no param {head!r} in {type(section).__name__}; correct the stage's params")
        below = [key.partition(".")[2] for key in keys if key.partition(".")[0] == head]
        value = getattr(section, head)
        kept[head] = value if "" in below else _restrict(value, below)
    return type(section).model_construct(**kept)


def _value_of(key: str, text: str) -> Any:
    """The YAML value of `text`."""
    if "\n" in text or "\r" in text:
        raise GraftError(f"-S {key}: more than one line; write lists as [a, b] and mappings as {{a: 1}}")
    return _plain(load_yaml(f"-S {key}", f"value: {text}", _round_trip_yaml())["value"])


def _round_trip_yaml() -> Any:
    """A parser and writer that keeps comments, order and quotes."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """A separate class: representers are registered per class, and DVC writes `dvc.lock` with the base class."""

    Representer.add_representer(type(None), lambda r, _: r.represent_scalar("tag:yaml.org,2002:null", "null"))
    yaml = YAML()
    yaml.Representer = Representer
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _assign(path: Path, document: Any, key: str, value: Any) -> Any:
    """Set a dotted key and return the old value."""
    if key == "rounds" and isinstance(value, int) and not isinstance(value, bool):
        if value > MOST_ROUNDS:
            raise GraftError(f"{path}: rounds: {value} is more than {MOST_ROUNDS}; write a number from 1 to that")
        old = _assign(path, document, "rounds.last", value)
        start = document["rounds"].get("start")
        if isinstance(start, dict):  # changed in place, with its comments; anything else is not valid
            chain = {str(number): number - 1 for number in range(1, value + 1)}
            for number in start.keys() - chain.keys():
                del start[number]
            start.update(chain)
        return old
    *folders, leaf = key.split(".")
    if folders == ["environment"] and "environment" in document:
        return _assign_to_environment(document, leaf, value)
    place = value_at(document, folders)
    if not isinstance(place, dict) or leaf not in place:
        raise GraftError(f"{path}: no param {key!r}{_remedy(key, document)}")
    old, place[leaf] = _plain(place[leaf]), _in_one_line(value)
    return old


def _assign_to_environment(document: Any, leaf: str, value: Any) -> Any:
    """Set a param of the environment, which may be new: `environment: answer` becomes {name: answer, …}."""
    environment = document["environment"]
    if not isinstance(environment, dict):
        if leaf == "name":
            document["environment"] = value
            return environment
        environment = document["environment"] = _in_one_line({"name": environment})
    old, environment[leaf] = _plain(environment.get(leaf)), _in_one_line(value)
    return old


def _in_one_line(value: Any) -> Any:
    """Lists and mappings in flow style, `[a, b]` and `{a: b}`, so that comments keep their lines."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if isinstance(value, dict):
        container: Any = CommentedMap({key: _in_one_line(_quoted(below)) for key, below in value.items()})
    elif isinstance(value, list):
        container = CommentedSeq(_in_one_line(_quoted(below)) for below in value)
    else:
        return value
    container.fa.set_flow_style()
    return container


def _quoted(value: Any) -> Any:
    """A text with a colon in quotes: ruamel writes module:CLASS without any, and in a line does not read that."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    return DoubleQuotedScalarString(value) if isinstance(value, str) and ":" in value else value


@lru_cache(maxsize=4)  # every stage reads the same
def validate(path: Path, text: str) -> Params:
    """The params of a text, missing ones as shipped. Raises GraftError that names the line in `path`."""
    document = load_yaml(path, text)
    fill(document)
    try:
        params = Params.model_validate(document)
    except ValidationError as error:
        errors = error.errors(include_url=False)  # a misspelt key is also a missing one: report the misspelling
        first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
        loc = [part for part in first["loc"] if part != "[key]"]
        key = ".".join(str(part) for part in loc)
        where = f"{path}:{_line_of(text, loc)}"
        if first["type"] == "extra_forbidden":
            raise GraftError(f"{where}: no param {key!r}{_remedy(key, Params)}") from None
        if first["type"] == "missing":
            raise GraftError(f"{where}: {key} is missing; add it") from None
        if first["type"] == "model_type":
            names = [k for k in keys_of(Params) if k.startswith(f"{key}.")]
            named = ", ".join(names[:3]) + ", …" * (len(names) > 3)
            raise GraftError(f"{where}: {key}: {first['input']!r} is no section; set its params: {named}") from None
        message = re.sub(r"^(Value error|Assertion failed), ", "", first["msg"])
        contrast = "" if first["type"] == "value_error" else f", not {first['input']!r}"
        lines = {_line_of(text, list(e["loc"])) for e in errors if e["type"] != "missing"} - {_line_of(text, loc)}
        more = f"; see also line {', '.join(map(str, sorted(lines)))}" if lines else ""
        raise GraftError(f"{where}: {key}: {message}{contrast}{more}") from None
    for section, problem in contradictions(params):
        raise GraftError(f"{path}:{_line_of(text, [section])}: {section}: {problem}")
    return params


def _plain(node: Any) -> Any:
    """ruamel's containers as dict and list; its floats, which lose a digit when written, as float."""
    if isinstance(node, float):
        return float(node)
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return node


def _line_of(text: str, loc: list[int | str]) -> int:
    """1-based line of the deepest part of `loc` in the file."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode

    line, node = 1, YAML(typ="safe").compose(text)
    for part in loc:
        pairs = node.value if isinstance(node, MappingNode) else []
        key, node = next(((key, value) for key, value in pairs if key.value == str(part)), (None, None))
        if key is None:
            break
        line = key.start_mark.line + 1
    return line


def keys_of(fields: Any, prefix: str = "") -> list[str]:
    """All dotted keys of a section class or of a parsed file."""
    if isinstance(fields, Mapping):
        pairs = list(fields.items())
    elif isinstance(fields, type) and issubclass(fields, Section):
        pairs = [(name, section_of(field.annotation)) for name, field in fields.model_fields.items()]
    else:
        return []
    return [k for name, below in pairs for k in (f"{prefix}{name}", *keys_of(below, f"{prefix}{name}."))]


def section_of(annotation: Any) -> Any:
    """The section of `Section | None`; any other annotation unchanged."""
    return next(
        (option for option in get_args(annotation) if isinstance(option, type) and issubclass(option, Section)),
        annotation,
    )


def _remedy(key: str, valid: Any) -> str:
    """`; did you mean …?`: our word for another project's, or what is spelt like it."""
    if key in MOVED:
        return f"; did you mean {MOVED[key]!r}?"
    if ours := synonym_of(key):
        return f"; did you mean {ours}?"
    keys = keys_of(valid)
    close = difflib.get_close_matches(key, keys, n=1, cutoff=0.6)
    if not close:
        leaves = difflib.get_close_matches(leaf_of(key), [leaf_of(k) for k in keys], n=1)
        close = [k for k in keys if leaf_of(k) in leaves]
    sections = ", ".join(k for k in keys if "." not in k)
    return f"; did you mean {close[0]!r}?" if close else f"; the sections are {sections}"


def leaf_of(key: str) -> str:
    """The last part of a dotted key."""
    return key.rpartition(".")[2]
