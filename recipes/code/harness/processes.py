"""The zygote's children for unit tests: one with the tests, one for programs that leave no state, one for each other.

The tests go from the host to the first of them directly: the zygote, from which programs under test are forked, never
has them. Standard library only.
"""

import math
import os
import signal
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from recipes.code.harness import wire
from recipes.code.harness.candidate import serve_programs
from recipes.code.harness.tester import serve_tests
from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.children import Children, HostClosed, TimeLimit
from tasks.programs.sandbox.lockdown import Lockdown

_REPLIES, _REQUESTS = 3, 4  # descriptors of a program under test
_CANDIDATES = 24  # processes of programs that one process with tests serves: a pair of pipes for each
_CAP = 1 << 22  # bytes of verdicts
_PIPE = 1 << 16  # bytes that a pipe holds
_SHARED_SECONDS = 0.5  # longest use of the shared process; what takes longer is tested again in its own
_LAST_SECONDS = 0.5  # for the tests to end after the program under test has been killed

_WELL = (wire.FINISHED, wire.USED_UP)


class Tester(NamedTuple):
    """A process with tests, the zygote's ends of its pipes, and those that programs will have.

    `free`: (place, requests, replies) of programs under test.
    """

    process: int
    orders: int
    done: int
    verdicts: int
    free: list[tuple[int, int, int]]

    def read_verdicts(self) -> bytes:
        """All that it has written since the last time."""
        with suppress(BlockingIOError):
            return os.read(self.verdicts, _PIPE)
        return b""

    def close(self) -> None:
        """Close the zygote's ends of the pipes."""
        for descriptor in (self.orders, self.done, self.verdicts, *(end for _, *ends in self.free for end in ends)):
            os.close(descriptor)


class TestedProgram(NamedTuple):
    """A process of a program under test, and its place among the tester's pipes."""

    process: int
    place: int


class TestProcesses:
    """Runs unit tests. `source`: the socket of the tests; `seconds`: the limit of a program and its tests together."""

    __test__ = False  # no test class of pytest

    def __init__(self, children: Children, lockdown: Lockdown, source: int, seconds: float) -> None:
        self._children, self._lockdown, self._source, self._seconds = children, lockdown, source, seconds
        self._shared_steps = lockdown.steps(None, keep=_REQUESTS + 1)
        self._own_steps = lockdown.steps(math.ceil(seconds) + 1, keep=_REQUESTS + 1)
        self._tester: Tester | None = None
        self._shared: TestedProgram | None = None

    def run(self, payload: bytes | memoryview) -> tuple[bytes, bytes]:
        """Kind and verdicts of the tests and the program that the host sends; `payload`: SHARED or OWN.

        AGAIN if the program did not end well in the shared process, which may be due to others.
        """
        shared = payload == wire.SHARED
        tester = self._tester = self._tester or self._start_tester()
        if shared:
            candidate = self._shared = self._shared or self._start_candidate(tester, shared)
            seconds = min(self._seconds, _SHARED_SECONDS)
        else:
            candidate, seconds = self._start_candidate(tester, shared), self._seconds
        limit = TimeLimit(seconds, candidate.process, tester.process)
        os.write(tester.orders, bytes([candidate.place]))
        ended, verdicts = self._wait(tester, candidate, limit)
        died = wire.DEAD in wire.parts_of_verdicts(verdicts)[1]
        was_well = ended in _WELL and not died
        was_too_big = False
        if not (shared and was_well):
            _, was_too_big = self._children.end(candidate.process)
            self._shared = None if shared else self._shared
        stays = ended
        if ended in (protocol.TIMEOUT, wire.MEMORY):  # without the program the tests end
            stays, more = self._wait(tester, None, TimeLimit(_LAST_SECONDS, tester.process))
            verdicts += more
        was_killed = False
        if stays != wire.FINISHED or not tester.free:
            was_killed = self.end() == -signal.SIGKILL and ended == b""
        if was_killed or not verdicts.startswith(wire.READ):
            raise HostClosed  # from outside; or the tests may still be in the socket, where others are expected next
        if shared and not was_well:
            return wire.AGAIN, b""
        if was_too_big or ended == wire.MEMORY:
            return wire.MEMORY, b""
        if ended == wire.MORE:
            return protocol.KILLED, b"wrote too much"
        late = ended == protocol.TIMEOUT or (died and limit.is_past)  # the kernel's processor limit may come first
        return protocol.TIMEOUT if late else protocol.ENDINGS, verdicts[1:]

    def end(self) -> int:
        """End the processes that last; the status of the one with the tests."""
        status = 0
        if self._shared:
            self._children.end(self._shared.process)
            self._shared = None
        if self._tester:
            status, _ = self._children.end(self._tester.process)
            self._tester.close()
            self._tester = None
        return status

    def _wait(self, tester: Tester, candidate: TestedProgram | None, limit: TimeLimit) -> tuple[bytes, bytes]:
        """How the tests ended, and their verdicts: FINISHED, USED_UP, b"" if they died, TIMEOUT, MEMORY, or MORE."""
        verdicts = b""
        ended = wire.MORE
        while ended == wire.MORE and len(verdicts) <= _CAP:
            ended = self._signal(tester, candidate, limit)
            verdicts += tester.read_verdicts()
        return ended, verdicts

    def _signal(self, tester: Tester, candidate: TestedProgram | None, limit: TimeLimit) -> bytes:
        while not self._children.readable(tester.done, self._children.next_check(limit.deadline)):
            if candidate and self._children.is_too_big(candidate.process):
                return wire.MEMORY
            if not limit.extend():
                return protocol.TIMEOUT
        return os.read(tester.done, 1)

    def _start_candidate(self, tester: Tester, shared: bool) -> TestedProgram:
        place, requests, replies = tester.free.pop()
        steps = self._shared_steps if shared else self._own_steps
        work = partial(serve_programs, _REQUESTS, _REPLIES, shared)
        process = self._children.fork({_REPLIES: replies, _REQUESTS: requests}, steps, work, lasting=shared)
        os.close(requests)
        os.close(replies)
        return TestedProgram(process, place)

    def _start_tester(self) -> Tester:
        requests, replies = _pipes(_CANDIDATES), _pipes(_CANDIDATES)
        orders, done, verdicts = _pipes(3)
        os.set_blocking(verdicts[0], False)
        candidates = [(ask[1], reply[0]) for ask, reply in zip(requests, replies, strict=True)]
        tester_ends = (orders[0], done[1], verdicts[1])
        kept = (*tester_ends, *(end for ends in candidates for end in ends))
        steps = self._lockdown.steps(None, _REPLIES, (self._source, *kept))
        work = partial(serve_tests, self._source, *tester_ends, candidates)
        process = self._children.fork({}, steps, work, lasting=True)
        for descriptor in kept:
            os.close(descriptor)
        free = [(i, ask[0], reply[1]) for i, (ask, reply) in enumerate(zip(requests, replies, strict=True))]
        return Tester(process, orders[1], done[0], verdicts[0], free)


def _pipes(count: int) -> list[tuple[int, int]]:
    return [os.pipe() for _ in range(count)]
