"""Work in shards: a function of each, computed here one after another, or wherever a driver has them computed.

Which shards there are is a matter of the data and of the param `shard` alone, and what comes of each is taken in their
order: so the result is the same bytes whoever computes them, and however many at once.
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
    """Who computes shards."""

    def map(self, function: Callable[[Shard], Value], shards: Iterable[Shard]) -> Iterator[Value]:
        """`function` of each shard, in their order; shards are taken and values given a few at a time.

        `function` is one of a module (or a `partial` of one): it may be computed in another process. What it raises is
        raised here.
        """


class Sequential:
    """This process, one shard after another."""

    def map(self, function: Callable[[Shard], Value], shards: Iterable[Shard]) -> Iterator[Value]:
        """See FanOut."""
        return map(function, shards)


_present: ContextVar[FanOut] = ContextVar("fan_out", default=Sequential())  # noqa: B039 (it holds nothing)


def fan_out() -> FanOut:
    """Who computes this stage's shards."""
    return _present.get()


@contextmanager
def use_fan_out(by: FanOut) -> Iterator[None]:
    """In the block `by` computes shards."""
    token = _present.set(by)
    try:
        yield
    finally:
        _present.reset(token)


def shards_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of `size`, in their order; the last list holds what is left."""
    rest = iter(items)
    while shard := list(islice(rest, size)):
        yield shard
