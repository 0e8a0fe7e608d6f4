"""A stage in several processes, seen from the one that starts them and waits."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params
from tasks.policy.base import best_device

ORDER, ANSWER, LOG = "order.pickle", "error.pickle", "torchrun.log"
"""Files of the folder that both sides know: what to compute, the first error, what torchrun says."""

QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore::FutureWarning,ignore::UserWarning"}
"""What the libraries would say, and each process again, of nothing that a user could mend."""

Work = Callable[[Layout, Params, int], None]
"""What of a stage is computed in all processes: a function of a module, which each of them imports."""


def run_in_processes(work: Work, layout: Layout, params: Params, round: int) -> None:
    """Have torchrun do the round's work in `grpo.processes` processes.

    What one of them raises is raised here, its traceback in a note. None of them outlives this process.
    """
    count = params.grpo.processes
    _check_devices(count)
    with TemporaryDirectory(prefix="graft-processes-") as name:
        folder = Path(name)
        (folder / ORDER).write_bytes(pickle.dumps((work, layout, params, round)))
        with (folder / LOG).open("wb") as log:
            process = _start(folder, count, log)
        try:
            code = process.wait()
        finally:
            _end(process)
        if code:
            raise _error(folder, count)


def _start(folder: Path, count: int, log: Any) -> "subprocess.Popen[bytes]":
    """torchrun, whose workers live as long as the pipe to their standard input is open.

    Away from the terminal's process group, so that Ctrl-C reaches them once and from here.
    """
    import torch

    code = str(Path(__file__).resolve().parents[2])
    paths = [code, os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [code]
    threads = str(max(torch.get_num_threads() // count, 1))
    changed = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": threads}
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    return subprocess.Popen(
        [sys.executable, "-m", *torchrun, "-m", "tasks.policy.worker", str(folder)],
        stdin=subprocess.PIPE,
        stdout=2,  # of the first worker, who takes it for its stderr
        stderr=log,
        env={**QUIET, **os.environ, **changed},
        start_new_session=True,
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.terminate()
    process.wait()


def _error(folder: Path, count: int) -> Exception:
    if (folder / ANSWER).exists():
        error: Exception = pickle.loads((folder / ANSWER).read_bytes())
        return error
    lines = (folder / LOG).read_text(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip(" =")), "no message")
    return GraftError(
        f"grpo.processes: one of the {count} processes was ended from outside, as where memory is short ({words}); "
        "run it again, or set it lower"
    )


def _check_devices(count: int) -> None:
    """Raises GraftError where the processes would be more than the GPUs."""
    import torch

    device = best_device()
    there = {"cuda": torch.cuda.device_count(), "mps": 1}.get(device, count)
    if count > there:
        raise GraftError(f"grpo.processes: {count} processes need a GPU each, and here are {there}; set it to {there}")
