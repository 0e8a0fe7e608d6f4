"""Surroundings of a program that are the same in every run: clocks that count their readings, seeds of generators,
numbers in the place of addresses, fresh memory.

Standard library only. (The hash seed, the time zone and the folders are set where the zygote starts,
zygote_client.py; the kernel gives neither the time nor random numbers nor process ids: clocks.py, seccomp.py.)
"""

import builtins
import ctypes
import gc
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

_START = 1_735_689_600  # seconds: 2025-01-01, 00:00 UTC
_STEP = 1_000_000  # nanoseconds from one reading of any clock to the next
_readings = itertools.count()


def use_python_datetime() -> None:
    """Let `datetime` be the version in Python, which reads the clock through the module `time`. Before its import."""
    sys.modules["_datetime"] = None  # type: ignore[assignment]


def replace_clocks() -> None:
    """Replace the clocks of the module `time`. A program that measures its time or waits for it in a loop ends.

    `sleep` too, which otherwise asks the kernel for the time at which it is to end. Before the import of modules that
    take a clock from there, or read one.
    """
    restart_clocks()
    names = ("time", "clock_gettime", "monotonic", "perf_counter", "process_time", "thread_time")
    for name in names:
        start = _START * 10**9 if name in ("time", "clock_gettime") else 0
        setattr(time, f"{name}_ns", lambda *_, start=start: start + next(_readings))
        setattr(time, name, lambda *_, start=start: (start + next(_readings)) / 10**9)
    for name in ("gmtime", "localtime", "ctime"):
        setattr(time, name, _with_time(getattr(time, name), 0, time.time))
    for name, place in (("asctime", 0), ("strftime", 1)):
        setattr(time, name, _with_time(getattr(time, name), place, time.localtime))
    time.sleep = _sleep


def restart_clocks() -> None:
    """Let the next reading be the first."""
    global _readings
    _readings = itertools.count(_STEP, _STEP)


def _with_time(function: Callable[..., Any], place: int, now: Callable[[], object]) -> Callable[..., Any]:
    """The function with a last argument that by default is the time of the replaced clock."""

    def call(*arguments: Any) -> Any:
        return function(*(arguments if arguments[place:] not in ((), (None,)) else (*arguments[:place], now())))

    return call


def _sleep(seconds: Any, /) -> None:
    """Wait for some seconds of the real time."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    _LIBC.usleep(ctypes.c_uint(min(int(seconds * 10**6), 2**32 - 1)))


def seed_generators() -> None:
    """Import `random`, seeded with 0, as every generator is that a program makes without a seed."""
    register = os.register_at_fork
    os.register_at_fork = lambda **_: None  # otherwise `random` draws a new seed in every child
    import random

    os.register_at_fork = register
    seed, new = random.Random.seed, vars(sys.modules["_random"])["Random"].__new__

    def seed_with_zero(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, 0 if a is None else a, version)

    random.Random.seed = seed_with_zero  # type: ignore[method-assign]
    # before that, C's own `__new__` asks the clock where the kernel gives no random numbers
    random.Random.__new__ = lambda cls, *_, **__: new(cls, 0)  # type: ignore[method-assign]
    random.seed = random._inst.seed
    random.seed()


def hide_addresses() -> None:
    """Let `id` number objects in the order in which it sees them, `hash` too where a hash would be an address.

    Removes the functions that count references and blocks of memory.
    """
    numbers: dict[int, tuple[int, object]] = {}  # by address; an object that is here keeps it
    digest = builtins.hash

    def id(value: object, /) -> int:
        """The number of an object."""
        return numbers.setdefault(_address(value), (16 * len(numbers) + 16, value))[0]

    def hash(value: object, /) -> int:
        """The hash of an object, or its number."""
        return id(value) >> 4 if type(value).__hash__ is object.__hash__ else digest(value)

    builtins.id, builtins.hash = id, hash
    for module, names in ((sys, ("getrefcount", "getallocatedblocks")), (gc, ("get_count", "get_stats"))):
        for name in names:
            delattr(module, name)


def hide_machine() -> None:
    """Let the machine have the processors that the C library assumes where the kernel names none, and this Python no
    day on which it was built. Removes the sizes of caches, which processors tell without the kernel."""
    os.cpu_count = lambda: 2
    sys.version = sys.version.partition(" ")[0]
    for module in (os, sys.modules["posix"]):
        del module.sysconf


def fill_free_memory(most: int | None = None) -> None:
    """Use up the free places between existing objects, for each size all or up to `most` bytes, and begin a new pool.

    New objects then lie one behind the other from the beginning of a pool, whatever ran before. The order of a small
    set of them is always the same: it depends on the lower bits of their addresses.
    """
    gc.collect()  # clears the interpreter's lists of free objects too
    for size in range(16, 513, 16):
        places = (_POOL - _POOL_HEAD) // size
        objects = [_object_of(size) for _ in range((most or 0) // size)]
        while most is None and not _fill_a_pool(objects, places):
            objects += [_object_of(size) for _ in range(1 + places // 8)]
        for _ in range(places):
            objects.append(_object_of(size))
            if _address(objects[-1]) % _POOL == _POOL_HEAD and not _share_a_pool(*objects[-2:]):
                break
        _kept.append(objects)
    gc.freeze()  # the collector shows a program its own objects alone


def _fill_a_pool(objects: list[object], places: int) -> bool:
    """Whether a pool has no other objects: it was new, and a new one is begun where no other has a free place."""
    return places in Counter(_address(value) // _POOL for value in objects[-2 * places :]).values()


def _share_a_pool(first: object, second: object) -> bool:
    """Whether two objects lie in one pool: the first place of a pool that is not new may have been free too."""
    return _address(first) // _POOL == _address(second) // _POOL


def _object_of(size: int) -> object:
    return bytes(size - _EMPTY) if size > _EMPTY else 1j * size if size > 16 else object()


_POOL, _POOL_HEAD = 1 << 14, 48  # bytes of the interpreter's pools, and before their first object
_EMPTY = sys.getsizeof(b"")
_address = builtins.id
_LIBC = ctypes.CDLL(None)
_kept: list[object] = []
