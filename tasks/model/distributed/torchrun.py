"""Run a stage in several processes with torchrun; this is the parent's side."""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tasks.core.child_process import last_line, spawn
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.distributed.job_file import Work, error_from_json, write_job
from tasks.model.policy import best_device
from tasks.params.params import Params

JOB, ERROR, LOG, STORE = "order.json", "error.json", "torchrun.log", "store"
"""Files of the shared folder: the job, the first error, torchrun's output, the process group's store."""

QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore::FutureWarning,ignore::UserWarning"}
"""Silences library warnings that each process would repeat and that a user cannot fix."""

RETURN_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1048576"}
"""Of a sharded base: malloc returns gathered layers to the system; glibc would keep as many as make up the whole."""

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""Network interface of the process group; by default torch takes the address of the machine's host name."""


def run_in_processes(work: Work, layout: Layout, params: Params, round: int) -> None:
    """Run the round's work in `update.processes` processes.

    An exception in one of them is raised here, its traceback in a note. None of them outlives this process.
    """
    count = params.update.processes
    _check_devices(count)
    with TemporaryDirectory(prefix="graft-processes-") as name:
        folder = Path(name)
        write_job(folder / JOB, work, layout, params, round)
        with (folder / LOG).open("wb") as log:
            process = _start(folder, count, params.update.sharded, log)
        try:
            code = process.wait()
        finally:
            _end(process)
        if code:
            raise _error(folder, count)


def _start(folder: Path, count: int, sharded: bool, log: Any) -> "subprocess.Popen[bytes]":
    """torchrun, whose workers live as long as the pipe to their standard input is open.

    It is outside the terminal's process group, so that Ctrl-C reaches the workers once, from here. They find each other
    through files in a private folder: torchrun's own store (`--standalone`) listens on every address of the machine and
    holds pickles.
    """
    import torch

    threads = str(max(torch.get_num_threads() // count, 1))
    changed = {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": threads, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    rendezvous = [
        "--rdzv-backend",
        "c10d",
        "--rdzv-conf",
        "store_type=file",
        "--rdzv-endpoint",
        str(folder / "torchrun"),
    ]
    worker = ["-m", "tasks.model.distributed.torchrun_worker", str(folder)]
    return spawn(
        "torch.distributed.run",
        *[*rendezvous, "--nnodes", "1", "--nproc-per-node", str(count), *worker],
        env={**QUIET, **LOOPBACK, **(RETURN_MEMORY if sharded else {}), **os.environ, **changed},
        stdout=2,  # the first worker uses it as its stderr
        stderr=log,
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.terminate()
    process.wait()


def _error(folder: Path, count: int) -> Exception:
    if (folder / ERROR).exists():
        return error_from_json((folder / ERROR).read_text(encoding="utf-8"))
    words = last_line((folder / LOG).read_text(errors="replace")) or "no message"
    return GraftError(
        f"update.processes: one of the {count} processes was ended from outside, as where memory is short ({words}); "
        "run it again, or set it lower"
    )


def _check_devices(count: int) -> None:
    """Raises GraftError where the processes would be more than the GPUs."""
    import torch

    device = best_device()
    there = {"cuda": torch.cuda.device_count(), "mps": 1}.get(device, count)
    if count > there:
        raise GraftError(
            f"update.processes: {count} processes need a GPU each, and here are {there}; set it to {there}"
        )
