"""The zygote's children for unit tests: one with the tests, one with the program under test.

The tests go from the host to the first of them directly: the zygote, from which programs under test are forked, never
has them. Standard library only.
"""

import math
import os
import signal
from functools import partial

from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.children import Children, HostClosed, TimeLimit
from tasks.programs.sandbox.lockdown import Lockdown
from tasks.programs.sandbox.unit_tests.candidate import serve_program
from tasks.programs.sandbox.unit_tests.tester import serve_tests

_REPLIES, _REQUESTS = 3, 4  # descriptors of a program under test
_CAP = 1 << 22  # bytes of verdicts
_PIPE = 1 << 16  # bytes that a pipe holds
_LAST_SECONDS = 0.5  # for the tests to end after the program under test has been killed


class TestProcesses:
    """Runs unit tests. `source`: the socket of the tests; `seconds`: the limit of a program and its tests together."""

    __test__ = False  # no test class of pytest

    def __init__(self, children: Children, lockdown: Lockdown, source: int, seconds: float) -> None:
        self._children, self._lockdown, self._source, self._seconds = children, lockdown, source, seconds
        self._candidate_steps = lockdown.steps(math.ceil(seconds) + 1, keep=_REQUESTS + 1)

    def run(self, _: bytes | memoryview) -> tuple[bytes, bytes]:
        """Kind and verdicts of the tests and the program that the host sends."""
        requests, replies, verdicts = os.pipe(), os.pipe(), os.pipe()
        work = partial(serve_tests, self._source, (requests[1], replies[0]), verdicts[1])
        kept = (self._source, requests[1], replies[0], verdicts[1])
        tester = self._children.fork({}, self._lockdown.steps(None, _REPLIES, kept), work)
        program = partial(serve_program, _REQUESTS, _REPLIES)
        own = {_REPLIES: replies[1], _REQUESTS: requests[0]}
        candidate = self._children.fork(own, self._candidate_steps, program)
        for end in (*requests, *replies, verdicts[1]):
            os.close(end)
        limit = TimeLimit(self._seconds, candidate, tester, new=True)
        try:
            try:
                ended, content = self._read(verdicts[0], candidate, limit)
            finally:
                was_too_big = self._children.end(candidate, tester)[1]
            if ended in (protocol.TIMEOUT, protocol.MEMORY):  # without the program the tests end
                content += self._read(verdicts[0], None, TimeLimit(_LAST_SECONDS, tester))[1]
        finally:
            status = self._children.end(tester)[0]
            os.close(verdicts[0])
        if (ended == protocol.ENDINGS and status == -signal.SIGKILL) or not content.startswith(protocol.READ):
            raise HostClosed  # from outside; or the tests may still be in the socket, where others are expected next
        if was_too_big or ended == protocol.MEMORY:
            return protocol.MEMORY, b""
        if ended == protocol.KILLED:
            return ended, b"wrote too much"
        late = protocol.DEAD in content and limit.is_past  # the kernel's processor limit came first
        return protocol.TIMEOUT if late else ended, content[1:]

    def _read(self, verdicts: int, candidate: int | None, limit: TimeLimit) -> tuple[bytes, bytes]:
        """How the tests ended, and their verdicts: ENDINGS, TIMEOUT, MEMORY, or KILLED if they wrote too much."""
        content = b""
        while len(content) <= _CAP:
            while not self._children.readable(verdicts, self._children.next_check(limit.deadline)):
                if candidate and self._children.is_too_big(candidate):
                    return protocol.MEMORY, content
                if not limit.extend():
                    return protocol.TIMEOUT, content
            part = os.read(verdicts, _PIPE)
            if not part:
                return protocol.ENDINGS, content
            content += part
        return protocol.KILLED, content
