"""Sums of more numbers than memory should hold, digit for digit those of `math.fsum` over all of them at once."""

import math
from array import array
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile

AT_ONCE = 1 << 16
"""So many numbers are in memory for one pass."""

IN_MEMORY = 1 << 24
"""A column of more bytes than these lies in a temporary file."""


class ExactSum:
    """Σ of finite numbers that come one after another."""

    def __init__(self) -> None:
        self._parts: list[float] = []  # their sum is exactly that of all numbers so far

    def add(self, numbers: Iterable[float]) -> None:
        """Take more numbers in."""
        self._parts += numbers
        if len(self._parts) > AT_ONCE:
            self._fold()

    @property
    def value(self) -> float:
        """The exact sum, rounded once."""
        return math.fsum(self._parts)

    def _fold(self) -> None:
        """What rounding the sum leaves over is a sum itself: a few such parts and nothing is left."""
        rest, parts = self._parts, list[float]()
        while part := math.fsum(rest):
            parts.append(part)
            rest.append(-part)
        self._parts = parts


class Column:
    """Finite numbers of one kind: how many, their mean and how far they lie from it. Use it in a `with` block."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = ExactSum()
        self._kept = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (closed by __exit__)

    def __enter__(self) -> "Column":
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def add(self, numbers: Iterable[float]) -> None:
        """Take more numbers in."""
        new = array("d", numbers)
        self.count += len(new)
        self._sum.add(new)
        self._kept.write(new.tobytes())

    @property
    def mean(self) -> float | None:
        """None of nothing."""
        return self._sum.value / self.count if self.count else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the whole set (ddof 0), in a second pass; None of nothing."""
        mean = self.mean
        if mean is None:
            return None
        squares = ExactSum()
        for numbers in self._again():
            squares.add((number - mean) ** 2 for number in numbers)
        return math.sqrt(squares.value / self.count)

    def _again(self) -> "Iterator[array[float]]":
        self._kept.seek(0)
        while content := self._kept.read(AT_ONCE * array("d").itemsize):
            yield array("d", content)
