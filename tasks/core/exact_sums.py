"""Sums, means and deviations of long streams of numbers, with exactly the digits of `math.fsum` over all of them."""

import math
from array import array
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile

CHUNK = 1 << 16
"""Numbers in memory at a time."""

IN_MEMORY = 1 << 24
"""Largest column, in bytes, that is not in a temporary file."""


class ExactSum:
    """Streaming sum of finite numbers."""

    def __init__(self) -> None:
        self._parts: list[float] = []  # their exact sum is that of all numbers so far

    def add(self, numbers: Iterable[float]) -> None:
        """Add the next numbers of the stream to the sum."""
        self._parts += numbers
        if len(self._parts) > CHUNK:
            self._fold()

    @property
    def value(self) -> float:
        """The exact sum, rounded once."""
        return math.fsum(self._parts)

    def _fold(self) -> None:
        """Replace the numbers by their rounded sum, the rounded sum of the remainder, and so on until it is 0."""
        remainder, parts = self._parts, list[float]()
        while part := math.fsum(remainder):
            parts.append(part)
            remainder.append(-part)
        self._parts = parts


class Column:
    """Count, mean and standard deviation of a stream of finite numbers. A context manager."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = ExactSum()
        self._file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (closed by __exit__)

    def __enter__(self) -> "Column":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, numbers: Iterable[float]) -> None:
        """Append the next numbers of the stream."""
        new = array("d", numbers)
        self.count += len(new)
        self._sum.add(new)
        self._file.write(new.tobytes())

    @property
    def mean(self) -> float | None:
        """The mean; None without numbers."""
        return self._sum.value / self.count if self.count else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the population (ddof 0), in a second pass; None without numbers."""
        mean = self.mean
        if mean is None:
            return None
        squares = ExactSum()
        for numbers in self.chunks():
            squares.add((number - mean) ** 2 for number in numbers)
        return math.sqrt(squares.value / self.count)

    def chunks(self) -> "Iterator[array[float]]":
        """The numbers, in the order in which they were added, some at a time."""
        self._file.seek(0)
        while content := self._file.read(CHUNK * array("d").itemsize):
            yield array("d", content)
