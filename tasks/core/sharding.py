"""Work in shards: a function is mapped over them, in this process or by a runner that the caller of a stage sets.

The shards depend only on the data and the param `shard_size`, and their results are used in order. So a stage writes
the same bytes wherever, and however many at a time, its shards are computed.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Shard = TypeVar("Shard")
Value = TypeVar("Value")


class FanOut(Protocol):
    """Maps a function over shards."""

    def map(self, function: Callable[[Shard], Value], shards: Iterable[Shard]) -> Iterator[Value]:
        """The values of `function` for each shard, in order; shards are consumed and values yielded a few at a time.

        `function` is a top-level function of a module, or a `partial` of one, since it may run in another process. Its
        exceptions are raised here.
        """


class Sequential:
    """Computes the shards in this process, one after another."""

    def map(self, function: Callable[[Shard], Value], shards: Iterable[Shard]) -> Iterator[Value]:
        """The values one after another; see FanOut."""
        return map(function, shards)


_current: ContextVar[FanOut] = ContextVar("fan_out", default=Sequential())  # noqa: B039 (it has no state)


def fan_out() -> FanOut:
    """The one set by `use_fan_out`; by default this process."""
    return _current.get()


@contextmanager
def use_fan_out(by: FanOut) -> Iterator[None]:
    """Let `by` compute the shards of stages in the block."""
    token = _current.set(by)
    try:
        yield
    finally:
        _current.reset(token)


def shards_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in order, in lists of `size`; the last list may be shorter."""
    remaining = iter(items)
    while shard := list(islice(remaining, size)):
        yield shard
