"""Words and quantities that all stories share, in `words.yaml`, and the reader of files of stories."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError, with_config

from tasks.artifacts import read_text
from tasks.environments.word_problems.stories.quantity import KINDS, Quantity
from tasks.errors import GraftError
from tasks.params.strict_yaml import load_yaml

T = TypeVar("T")


def _quantity(written: Any) -> Quantity:
    """`age`: a shared quantity; `{whole: [3, 25]}`: one of KINDS with its arguments."""
    if isinstance(written, str) and written in shared_words().quantities:
        return shared_words().quantities[written]
    if isinstance(written, dict) and len(written) == 1 and (kind := next(iter(written))) in KINDS:
        return KINDS[kind](*written[kind])
    raise ValueError(f"{written!r} is no quantity; write one of words.yaml, or {{whole: [3, 25]}}")


def _items(written: Any) -> tuple[str, ...]:
    """`fruit`: shared items."""
    if written not in shared_words().items:
        raise ValueError(f"{written!r} names no items of words.yaml")
    return shared_words().items[written]


StoryQuantity = Annotated[Quantity, BeforeValidator(_quantity)]
StoryItems = Annotated[tuple[str, ...], BeforeValidator(_items)]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class SharedWords:
    """Names of people and places, and items and quantities by name."""

    names: tuple[str, ...]
    places: tuple[str, ...]
    items: dict[str, tuple[str, ...]]
    quantities: dict[str, StoryQuantity]


@cache
def shared_words() -> SharedWords:
    return read_data(Path(__file__).with_name("words.yaml"), SharedWords)


def read_data(path: Path, kind: type[T]) -> T:
    """The content of a YAML file as `kind`. Raises GraftError that names the file and the entry that does not fit."""
    try:
        return TypeAdapter(kind).validate_python(load_yaml(path, read_text(path)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        entry = ".".join(map(str, first["loc"]))
        raise GraftError(f"{path}: {entry}: {first['msg'].removeprefix('Value error, ')}; correct the entry") from None
