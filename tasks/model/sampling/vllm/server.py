"""A sampling server that Graft starts: `machine.vllm.command` with the policy's base, on a free port of loopback.

If the command has vLLM's `--enable-sleep-mode`, one server does for all stages of a run. Between the stages that sample
it sleeps at level 1: its weights are in the machine's memory and the card is free for select and update. It starts once
a run, instead of once a stage (https://docs.vllm.ai/en/latest/features/sleep_mode/).

`server_params` is the section `machine.vllm`, which no stage sees: address and command change no result. The code that
runs a stage sets it (`use_server`), as it sets what computes the shards (tasks/core/sharding.py).
"""

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from tasks.artifacts import open_file_itself
from tasks.core.child_process import kill_tree, last_line, spawn
from tasks.core.loopback import HOST, answers, free_port
from tasks.core.terminal import print_remark
from tasks.errors import GraftError
from tasks.model.cuda.cards import free_card
from tasks.model.sampling.vllm.json_client import KEY, JsonClient
from tasks.params.fields import VllmDtype
from tasks.params.machine import VllmServer

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values of vLLM's --max-lora-rank."""

BASE = "base"
"""The name under which a started server has the base."""

ENVIRONMENT = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}

SLEEP = "--enable-sleep-mode"
"""Flag of vLLM: the server can give the card's memory back."""

SLEEP_ENVIRONMENT = {"VLLM_SERVER_DEV_MODE": "1"}
"""Without it vLLM has no address to put it to sleep."""

POLL = 0.2
"""Seconds between two looks at a server that starts."""

END = 10.0
"""Seconds for the supervisor to end the server, which takes it GRACE at most."""

Start = Callable[[], AbstractContextManager[str]]
"""Starts a server, whose address it yields, and ends it."""

_params: ContextVar[VllmServer | None] = ContextVar("vllm", default=None)


@contextmanager
def started_server(
    program: Sequence[str], dtype: VllmDtype, base: str, rank: int | None, trusted: bool, log: Path
) -> Iterator[str]:
    """Run `program` as a server of `base` during the block; its address, which ends in /v1.

    `rank`: of the adapters that it will load, None: none. Its key, which keeps other users of the machine out, is the
    user's VLLM_API_KEY or a random one. Raises GraftError with the last line of its log if it ends before it answers.
    """
    if not os.environ.get(KEY):
        os.environ[KEY] = secrets.token_hex(32)  # read by the server and by JsonClient, and so removed from all texts
    free_card()
    port = free_port()
    command = server_command(program, dtype, base, rank, trusted, port)
    environment = ENVIRONMENT | (SLEEP_ENVIRONMENT if SLEEP in program else {})
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb", opener=open_file_itself) as stream:
        process = spawn(
            "tasks.model.sampling.vllm.supervisor", *command, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        print_remark(f"sampler: {command[0]} starts, its output is in {log}")
        _wait_until_it_answers(process, f"http://{HOST}:{port}/health", command[0], log)
        yield f"http://{HOST}:{port}/v1"
    finally:
        _end(process)


def server_command(
    program: Sequence[str], dtype: VllmDtype, base: str, rank: int | None, trusted: bool, port: int
) -> list[str]:
    """The command with what it must be started with; `vllm serve` takes the base by its place, others by its name."""
    command = list(program)
    place = command.index("serve") + 1 if "serve" in command else len(command)
    command[place:place] = [base] if "serve" in command else ["--model", base]
    command += ["--served-model-name", BASE, "--host", HOST, "--port", str(port), "--dtype", dtype]
    command += ["--generation-config", "vllm", "--logprobs-mode", "processed_logprobs", "--allowed-origins", "[]"]
    if rank is not None:
        command += ["--enable-lora", "--max-lora-rank", str(next(most for most in RANKS if most >= rank))]
    return [*command, "--trust-remote-code"] if trusted else command


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", url: str, name: str, log: Path) -> None:
    while not answers(url):
        if process.poll() is not None:
            text = log.read_text(encoding="utf-8", errors="replace")
            raise GraftError(f"machine.vllm.command: {name} ended before it answered: {last_line(text)}; see {log}")
        time.sleep(POLL)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close the pipe, upon which the supervisor ends the server; kill what is left."""
    if process.stdin:
        with suppress(OSError):
            process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END)
    kill_tree(process)


def server_params() -> VllmServer:
    """The section set by `use_server`. Raises GraftError where there is none."""
    params = _params.get()
    if params is None:
        raise GraftError("vllm: no server is set here; run the stage by graft stage or graft retrain")
    return params


@contextmanager
def use_server(params: VllmServer) -> Iterator[None]:
    """Let stages in the block find their server by these params."""
    token = _params.set(params)
    try:
        yield
    finally:
        _params.reset(token)


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
            client.ask(path, {})
        except GraftError:
            self._end()
            return False
        return True

    def _end(self) -> None:
        self._ends.close()
        self._client = None


_run_server: ContextVar[RunServer | None] = ContextVar("run server", default=None)


@contextmanager
def keep_server() -> Iterator[None]:
    """Stages in the block share a server that can sleep. It ends with the block."""
    with ExitStack() as ends:
        token = _run_server.set(RunServer(ends))
        try:
            yield
        finally:
            _run_server.reset(token)


def awake_server(command: Sequence[str], start: Start) -> AbstractContextManager[str]:
    """A server of `command` during a block: the run's, where there is a run and the server can sleep, or a new one."""
    server = _run_server.get()
    return server.awake(command, start) if server and SLEEP in command else start()
