"""One server for all stages of a run, if its command has vLLM's `--enable-sleep-mode`.

Between the stages that sample it sleeps at level 1: its weights are in the machine's memory and the card is free for
select and update. It starts once a run, instead of once a stage (https://docs.vllm.ai/en/latest/features/sleep_mode/).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar

from tasks.errors import GraftError
from tasks.model.sampling.vllm.json_client import JsonClient
from tasks.model.sampling.vllm.server import SLEEP, free_card

Start = Callable[[], AbstractContextManager[str]]
"""Starts a server, whose address it yields, and ends it."""


class RunServer:
    """The server that is there: one at a time, since each takes the card."""

    def __init__(self, ends: ExitStack) -> None:
        """`ends`: what ends the server."""
        self._ends = ends
        self._client: JsonClient | None = None
        self._command: Sequence[str] = ()

    @contextmanager
    def awake(self, command: Sequence[str], start: Start) -> Iterator[str]:
        """The address of a server of `command`, awake during the block; it is started if there is none, or another."""
        client = self._wake(command) or self._start(command, start)
        try:
            yield client.address
        except BaseException:  # of the stage, which may be that the server does not answer
            self._end()
            raise
        self._ask(client, "//sleep?level=1")

    def _wake(self, command: Sequence[str]) -> JsonClient | None:
        if self._client is None or self._command != command:
            return None
        free_card()
        return self._client if self._ask(self._client, "//wake_up") else None

    def _start(self, command: Sequence[str], start: Start) -> JsonClient:
        self._end()
        self._client, self._command = JsonClient(self._ends.enter_context(start())), command
        return self._client

    def _ask(self, client: JsonClient, path: str) -> bool:
        """Whether the server did it. One that did not is ended: it may hold the card's memory."""
        try:
            client.post(path, {})
        except GraftError:
            self._end()
            return False
        return True

    def _end(self) -> None:
        self._ends.close()
        self._client = None


_current: ContextVar[RunServer | None] = ContextVar("run server", default=None)


@contextmanager
def keep_server() -> Iterator[None]:
    """Stages in the block share a server that can sleep. It ends with the block."""
    with ExitStack() as ends:
        token = _current.set(RunServer(ends))
        try:
            yield
        finally:
            _current.reset(token)


def awake_server(command: Sequence[str], start: Start) -> AbstractContextManager[str]:
    """A server of `command` during a block: the run's, where there is a run and the server can sleep, or a new one."""
    server = _current.get()
    return server.awake(command, start) if server and SLEEP in command else start()
