"""The children of the zygote: forked, watched within their limits, killed and reaped; a service with some of its own.

Standard library only.
"""

import ctypes
import math
import os
import select
import signal
from collections.abc import Callable
from time import monotonic, sleep  # the module's own is replaced for programs (surroundings.py)
from typing import Protocol

from tasks.programs.sandbox.lockdown import Lockdown, Restriction, apply_steps

_QUEUE_SECONDS = 5.0  # longest wait for a processor that does not count as running time; below the host's timeout
_MEMORY_CHECK_SECONDS = 0.005  # between two checks of a child's memory where the kernel enforces no limit

_PAGE = os.sysconf("SC_PAGE_SIZE")  # bytes

_TICK_SECONDS = 0.02  # the kernel updates its accounts of a process more often than that

_fork: Callable[[], int] = getattr(ctypes.PyDLL(None), "_Fork", os.fork)
"""The C library's bare fork if available. Python's own then reinitialises locks, threads and signal handlers, a dozen
copied pages per child; the zygote has one thread and no handlers."""


class HostClosed(Exception):
    """The host closed the socket or died."""


class Children:
    """The children of this process.

    `control`: the host's socket. `max_resident`: bytes that a child may use, inf where the kernel enforces the limit.
    `may_fork`: children can have descendants of their own, as nothing prevents it.
    """

    def __init__(self, control: int, max_resident: float, may_fork: bool) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLHUP)
        self._max_resident = max_resident
        self._may_fork = may_fork
        self._lasting: set[int] = set()

    def fork(
        self, descriptors: dict[int, int], steps: list[Restriction], work: Callable[[], None], lasting: bool = False
    ) -> int:
        """Process id of a child that locks itself down, calls `work` and exits.

        `descriptors`: its own → those here. `lasting`: it serves more than one request.
        """
        child = _fork()
        if child < 0:
            raise OSError("the kernel creates no process")
        if child:
            if lasting:
                self._lasting.add(child)
            return child
        try:
            os.setpgid(0, 0)
            for place, descriptor in descriptors.items():
                os.dup2(descriptor, place)
            apply_steps(steps)
            work()
        finally:
            os._exit(1)  # the status is not read, only what was written

    def end(self, child: int) -> tuple[int, bool]:
        """Kill a child and its group, and reap it: exit status, negative for a signal, and if it was too big."""
        for kill in (os.killpg, os.kill):  # its group may not exist yet, or it may have left it
            try:
                kill(child, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        _, status, usage = os.wait4(child, 0)
        self._lasting.discard(child)
        if self._may_fork:
            self._kill_orphans()
        return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024 > self._max_resident

    def readable(self, descriptor: int, deadline: float) -> bool:
        """Wait for data or the end of a pipe; False at the deadline. Raises HostClosed."""
        self._poll.register(descriptor, select.POLLIN)
        events = dict(self._poll.poll(max(0.0, deadline - monotonic()) * 1000))
        self._poll.unregister(descriptor)
        if self._control in events:
            raise HostClosed
        return descriptor in events

    def next_check(self, deadline: float) -> float:
        """When to stop waiting for a child: at its deadline, or earlier to check its memory."""
        return deadline if self._max_resident == math.inf else min(deadline, monotonic() + _MEMORY_CHECK_SECONDS)

    def is_too_big(self, child: int) -> bool:
        """Whether a child uses more memory than it may."""
        return self._max_resident != math.inf and resident_bytes(child) > self._max_resident

    def _kill_orphans(self) -> None:
        """Kill the descendants that a child left behind: this process is their subreaper."""
        for _ in range(1000):
            orphans = [process for process in _children() if process not in self._lasting]
            if not orphans:
                return
            for process in orphans:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)


class TimeLimit:
    """`seconds` from now for processes that take turns; the time that they wait for a processor does not count.

    `new`: they have just been forked.
    """

    def __init__(self, seconds: float, *processes: int, new: bool = False) -> None:
        self._limit = self.deadline = monotonic() + seconds
        self._queued = {process: 0.0 if new else _seconds_queued(process) for process in processes}

    @property
    def is_past(self) -> bool:
        """Whether the seconds have passed on the clock."""
        return monotonic() > self._limit

    def extend(self) -> bool:
        """Move the deadline by the time that was spent waiting; False if the time is over."""
        now = monotonic()  # before reading the scheduler's times, as this process may have to wait in between
        self.deadline = self._extended()
        if self.deadline < now + 0.01 and now < self._limit + _QUEUE_SECONDS:
            if any(map(_is_starved, self._queued)):
                self.deadline = now + 2 * _TICK_SECONDS
                return True
            self.deadline = self._extended()  # a wait that has just ended is included
        return self.deadline > now + 0.01

    def _extended(self) -> float:
        waited = sum(_seconds_queued(process) - before for process, before in self._queued.items())
        return self._limit + min(waited, _QUEUE_SECONDS)


def _children() -> list[int]:
    """Process ids of this process's children; none without /proc."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listing:
            return [int(word) for word in listing.read().split()]
    except FileNotFoundError:
        return []


def resident_bytes(process: int) -> int:
    """Bytes of memory that a process uses now, pages shared with the zygote included; 0 if it no longer exists.

    For machines whose kernel does not enforce a limit on the address space.
    """
    try:
        with open(f"/proc/{process}/statm") as sizes:
            return int(sizes.read().split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _seconds_queued(process: int) -> float:
    """Seconds that a runnable process waited for a processor, without a wait still going on; 0 if not available."""
    return _scheduler_times(process)[1]


def _is_starved(process: int) -> bool:
    """Whether a process is waiting for a processor: runnable, but not run for longer than the kernel's tick."""
    ran = _scheduler_times(process)[0]
    sleep(_TICK_SECONDS)
    try:
        with open(f"/proc/{process}/stat") as line:
            state = line.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state == "R" and _scheduler_times(process)[0] == ran


def _scheduler_times(process: int) -> tuple[float, float]:
    """Seconds that a process has run and has waited for a processor; 0 if not available."""
    try:
        times = os.open(f"/proc/{process}/schedstat", os.O_RDONLY)  # open() makes twice as many system calls
    except FileNotFoundError:
        return 0.0, 0.0
    try:
        ran, waited, _ = os.read(times, 100).split()
    except ProcessLookupError:
        return 0.0, 0.0
    finally:
        os.close(times)
    return int(ran) / 1e9, int(waited) / 1e9


class Service(Protocol):
    """Answers one request at a time, with children of its own."""

    def __init__(self, children: Children, lockdown: Lockdown, source: int, seconds: float) -> None:
        """`source`: the socket of what the host sends past the zygote, `seconds`: the limit of a program.

        What programs must not read goes there: the zygote, from which they are forked, never has it in its memory.
        """

    def run(self, payload: memoryview) -> tuple[bytes, bytes]:
        """(kind, payload) for the host. Raises HostClosed to end the zygote; the host starts another one."""

    def end(self) -> object:
        """End the children that last."""
