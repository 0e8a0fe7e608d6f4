"""A group of processes, started in less time: by a server that has torch imported already."""

import os
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from tasks.model.distributed.collectives import process_group

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(
    ["torch", "transformers.models.qwen2", "transformers.trainer", "peft", "tasks.update.task"]
)


def in_processes(count: int, folder: Path, work: Callable[..., Any], *given: Any, gpus: bool = False) -> list[Any]:
    """What work(*given) returns in each process, by way of files in the folder; `gpus`: with one of them each."""
    (folder / "store").unlink(missing_ok=True)
    variables = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
    workers = [SERVER.Process(target=_process, args=(n, count, variables, folder, work, given)) for n in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=120)
        worker.kill()
    assert [worker.exitcode for worker in workers] == [0] * count
    return [torch.load(folder / f"{number}.pt", weights_only=False) for number in range(count)]


def in_process(work: Callable[..., Any], *given: Any) -> None:
    """Call work(*given) in a process alone, which has no part of what other tests left in this one."""
    worker = SERVER.Process(target=work, args=given)
    worker.start()
    worker.join(timeout=120)
    worker.kill()
    assert worker.exitcode == 0


def _process(
    number: int, count: int, variables: dict[str, str], folder: Path, work: Callable[..., Any], given: tuple[Any]
) -> None:
    os.environ |= variables
    torch.set_num_threads(1)
    with process_group(folder / "store", number, count):
        torch.save(work(*given), folder / f"{number}.pt")
