"""Quantities of word problems: the numbers that a story may have in one place, as text and as value."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

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
    """`12` … `1,200`."""
    return Quantity(tuple((f"{value:,}", Fraction(value)) for value in range(low, high + 1, step)))


def plain(low: int, high: int) -> Quantity:
    """A number used as a name (a year, a bus line), without thousands comma."""
    return Quantity(tuple((str(value), Fraction(value)) for value in range(low, high + 1)))


def dollars(low: int, high: int, cents: int = 100) -> Quantity:
    """`$15`, `$2.50`, in steps of `cents`."""
    values = [Fraction(value, 100) for value in range(low * 100, high * 100 + 1, cents)]
    return Quantity(
        tuple(
            (f"${value.numerator:,}" if value.denominator == 1 else f"${float(value):,.2f}", value) for value in values
        )
    )


def decimals(low: int, high: int) -> Quantity:
    """`2.5`, in steps of a half."""
    values = [Fraction(value, 2) for value in range(low * 2, high * 2 + 1)]
    return Quantity(tuple((f"{float(value):g}", value) for value in values))


def percents(*values: int) -> Quantity:
    """`20%`, which means 0.2."""
    return Quantity(tuple((f"{value}%", Fraction(value, 100)) for value in values), ratio=True)


def shares(*texts: str) -> Quantity:
    """`3/4`, or `half`."""
    return Quantity(tuple((text, WORDS.get(text) or Fraction(text)) for text in texts), ratio=True)


def words(*texts: str) -> Quantity:
    """Number words, or phrases that begin with a digit: `twice`, `3 times`, `dozen`, `four`."""
    return Quantity(tuple((text, WORDS.get(text) or Fraction(text.split()[0])) for text in texts))


KINDS: dict[str, Callable[..., Quantity]] = {
    make.__name__: make for make in (whole, plain, dollars, decimals, percents, shares, words)
}
"""Kind of a quantity in a file → the function that makes it."""
