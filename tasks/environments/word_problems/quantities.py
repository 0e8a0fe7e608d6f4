"""Quantities of stories as text and as value, the words that all stories share (`words.yaml`), and their reader."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError, with_config

from tasks.artifacts import read_text
from tasks.errors import GraftError
from tasks.params.strict_yaml import load_yaml

Option = tuple[str, Fraction]
"""A quantity as text, and its value."""

WORDS = {
    "half": Fraction(1, 2),
    "twice": Fraction(2),
    "double": Fraction(2),
    "triple": Fraction(3),
    "three": Fraction(3),
    "dozen": Fraction(12),
}
"""The number words that questions may contain."""


@dataclass(frozen=True)
class Quantity:
    """The options of a number in a story; a `ratio` (3/4, 20%) need not be integral."""

    options: tuple[Option, ...]
    ratio: bool = False


def whole(low: int, high: int, step: int = 1) -> Quantity:
    """Whole numbers with thousands commas: `12` … `1,200`."""
    return Quantity(tuple((f"{value:,}", Fraction(value)) for value in range(low, high + 1, step)))


def plain(low: int, high: int) -> Quantity:
    """A number used as a name (a year, a bus line), without thousands comma."""
    return Quantity(tuple((str(value), Fraction(value)) for value in range(low, high + 1)))


def dollars(low: int, high: int, cents: int = 100) -> Quantity:
    """Amounts of money in steps of `cents`: `$15`, `$2.50`."""
    values = [Fraction(value, 100) for value in range(low * 100, high * 100 + 1, cents)]
    return Quantity(
        tuple(
            (f"${value.numerator:,}" if value.denominator == 1 else f"${float(value):,.2f}", value) for value in values
        )
    )


def decimals(low: int, high: int) -> Quantity:
    """Decimals in steps of a half: `2.5`."""
    values = [Fraction(value, 2) for value in range(low * 2, high * 2 + 1)]
    return Quantity(tuple((f"{float(value):g}", value) for value in values))


def percents(*values: int) -> Quantity:
    """Percentages, `20%` for instance, whose value is 0.2."""
    return Quantity(tuple((f"{value}%", Fraction(value, 100)) for value in values), ratio=True)


def shares(*texts: str) -> Quantity:
    """Shares as fractions or in words: `3/4`, `half`."""
    return Quantity(tuple((text, WORDS.get(text) or Fraction(text)) for text in texts), ratio=True)


def words(*texts: str) -> Quantity:
    """Number words, or phrases that begin with a digit: `twice`, `3 times`, `dozen`, `four`."""
    return Quantity(tuple((text, WORDS.get(text) or Fraction(text.split()[0])) for text in texts))


KINDS: dict[str, Callable[..., Quantity]] = {
    make.__name__: make for make in (whole, plain, dollars, decimals, percents, shares, words)
}
"""Kind of a quantity in a file → the function that makes it."""


T = TypeVar("T")


def _quantity(written: Any) -> Quantity:
    """A quantity as a file writes it: `age`, a shared one, or `{whole: [3, 25]}`, one of KINDS with its arguments."""
    if isinstance(written, str) and written in shared_words().quantities:
        return shared_words().quantities[written]
    if isinstance(written, dict) and len(written) == 1 and (kind := next(iter(written))) in KINDS:
        return KINDS[kind](*written[kind])
    raise ValueError(f"{written!r} is no quantity; write one of words.yaml, or {{whole: [3, 25]}}")


def _items(written: Any) -> tuple[str, ...]:
    """The shared items of a name, `fruit` for instance."""
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
