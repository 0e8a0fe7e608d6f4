"""Run a stage in several processes that this one starts; the first of them writes.

They find each other through a file in a private folder, on the loopback interface. A process sends its error, or None
at its end, through a pipe, and ends with this process, however that ends.
"""

import logging
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tasks.core.child_process import end_with_parent, last_line
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.cuda.cards import check_count
from tasks.model.device import for_device, use_device
from tasks.model.distributed.collectives import process_group
from tasks.model.policy import policy_device
from tasks.params.fields import Device
from tasks.params.params import Params

LOG, STORE = "log", "store"
"""Files of the shared folder: the output of all processes but the first, the process group's store."""

QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore::FutureWarning,ignore::UserWarning"}
"""Silences library warnings that each process would repeat and that a user cannot fix."""

RETURN_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1048576"}
"""Lets malloc return gathered layers of a sharded base to the system; glibc would keep as many as make up the whole."""

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""Network interface of the process group; by default torch takes the address of the machine's host name."""

LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""In what gloo raises where another process is gone: that one's error is the one to show, or that it was ended."""

Work = Callable[[Layout, Params, int], None]
"""The part of a stage that all processes compute: a top-level function of a module, or a partial of one."""


def run_in_processes(work: Work, count: int, layout: Layout, params: Params, round: int) -> None:
    """Run the round's work in `count` processes, where that is 1 in this one.

    An exception in one of them is raised here, its traceback in a note. None of them outlives this process.
    """
    if count == 1:
        work(layout, params, round)
        return
    context = multiprocessing.get_context("spawn")
    device = policy_device(layout.policy(round - 1))
    for_device(device, cpu=lambda _: None, cuda=check_count)(count)
    threads = str(max(torch.get_num_threads() // count, 1))
    defaults = {**QUIET, **LOOPBACK, **(RETURN_MEMORY if params.update.sharded else {})}
    with TemporaryDirectory(prefix="graft-processes-") as name:
        receivers, workers = list[Connection](), list[multiprocessing.process.BaseProcess]()
        try:
            with _environment({**defaults, **os.environ, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": threads}):
                for rank in range(count):
                    receiver, sender = context.Pipe(duplex=False)
                    arguments = (rank, count, Path(name), sender, work, layout, params, round, device)
                    workers.append(context.Process(target=_run, args=arguments, daemon=True))
                    workers[-1].start()
                    receivers.append(receiver)
                    sender.close()
            _wait(receivers, Path(name) / LOG)
        finally:
            for worker in workers:
                worker.kill()
                worker.join()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """In the block, processes are started with these variables, and without Ctrl-C: this process ends them."""
    before = dict(os.environ)
    os.environ.update(variables)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.environ.clear()
        os.environ.update(before)


def _wait(receivers: list[Connection], log: Path) -> None:
    """Wait for the end of all processes. Raises the first error that does not follow from another process's end."""
    count = len(receivers)
    while receivers:
        ready = wait(receivers)
        outcomes = [_outcome(receiver) for receiver in receivers if receiver in ready]
        receivers = [receiver for receiver in receivers if receiver not in ready]
        if any(outcomes):
            outcomes += [_outcome(receiver) for receiver in receivers if receiver.poll()]
            words = last_line(log.read_text(errors="replace")) if log.exists() else ""
            lost = GraftError(
                f"update.processes: one of the {count} processes was ended from outside, as where memory is short "
                f"({words or 'no message'}); run it again, or set it lower"
            )
            raise next((error for error in outcomes if error and not isinstance(error, ConnectionError)), lost)


def _outcome(receiver: Connection) -> Exception | None:
    """What a process has sent; ConnectionError if it ended without a word, or for lack of another one."""
    try:
        outcome: Exception | None = receiver.recv()
    except EOFError:
        return ConnectionError()
    return outcome


def _run(
    rank: int,
    count: int,
    folder: Path,
    sender: Connection,
    work: Work,
    layout: Layout,
    params: Params,
    round: int,
    device: Device,
) -> None:
    """The work of one process; only the first one writes to the run's stderr."""
    os.environ["RANK"] = str(rank)  # as torchrun sets it: only the first one shows progress
    parent = multiprocessing.parent_process()
    assert parent is not None
    end_with_parent(parent.join)
    output = 2 if rank == 0 else os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of kernels that are not installed
    try:
        with use_device(device), process_group(folder / STORE, rank, count):
            work(layout, params, round)
        sender.send(None)
    except Exception as error:  # noqa: BLE001 (raised again in the waiting process)
        sender.send(_sent(error))
        os._exit(1)  # at once: the others wait for this one


def _sent(error: Exception) -> Exception:
    """An error that can be pickled, with its traceback in a note."""
    if any(words in str(error) for words in LOST):
        return ConnectionError()
    if not isinstance(error, GraftError | OSError):
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(traceback.format_exc())
    return error
