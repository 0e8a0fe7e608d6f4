"""A sampling server that Graft starts: `machine.vllm.command` with the policy's base, on a free port of loopback.

`server_params` is the section `machine.vllm`, which no stage sees: address and command change no result. The code that
runs a stage sets it (`use_server`), as it sets what computes the shards (tasks/core/sharding.py).
"""

import gc
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from tasks.artifacts import open_file_itself
from tasks.core.child_process import kill_tree, last_line, spawn
from tasks.core.loopback import HOST, answers, free_port
from tasks.core.terminal import print_remark
from tasks.errors import GraftError
from tasks.params.fields import VllmDtype
from tasks.params.machine import VllmServer

KEY = "VLLM_API_KEY"
"""Environment variable with the key of the server; vLLM itself reads it, too."""

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

_current: ContextVar[VllmServer | None] = ContextVar("vllm", default=None)


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


def free_card() -> None:
    """Give back what torch keeps of a card's memory after an earlier stage of this process: the server takes a share of
    the whole."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        gc.collect()  # models that only cycles hold
        torch.cuda.empty_cache()


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
    params = _current.get()
    if params is None:
        raise GraftError("vllm: no server is set here; run the stage by graft stage or graft retrain")
    return params


@contextmanager
def use_server(params: VllmServer) -> Iterator[None]:
    """Let stages in the block find their server by these params."""
    token = _current.set(params)
    try:
        yield
    finally:
        _current.reset(token)
