"""Run a stage in several processes with torchrun; this is the parent's side.

The job and an error are files of JSON. Reading one runs no code except a function of `tasks` by its name.
"""

import json
import os
import subprocess
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Any, get_args

from pydantic import TypeAdapter

from tasks.core.child_process import last_line, spawn
from tasks.errors import GraftError, TransientError
from tasks.layout import Layout
from tasks.model.policy import best_device
from tasks.params.params import Params
from tasks.params.sections import Section

JOB, ERROR, LOG, STORE = "order.json", "error.json", "torchrun.log", "store"
"""Files of the shared folder: the job, the first error, torchrun's output, the process group's store."""

QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore::FutureWarning,ignore::UserWarning"}
"""Silences library warnings that each process would repeat and that a user cannot fix."""

RETURN_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1048576"}
"""Lets malloc return gathered layers of a sharded base to the system; glibc would keep as many as make up the whole."""

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""Network interface of the process group; by default torch takes the address of the machine's host name."""

Work = Callable[[Layout, Params, int], None]
"""The part of a stage that all processes compute: a function of a module that each of them imports."""


ERROR_TYPES = {"GraftError": GraftError, "TransientError": TransientError}


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


def write_job(path: Path, work: Work, layout: Layout, params: Params, round: int) -> None:
    """`params` may be restricted to those that a stage declares."""
    job = {
        "work": f"{work.__module__}:{work.__qualname__}",
        "root": str(layout.root),
        "params": params.model_dump(mode="json"),
        "round": round,
    }
    path.write_text(json.dumps(job), encoding="utf-8")


def read_job(path: Path) -> tuple[Work, Layout, Params, int]:
    """Read what `write_job` wrote. Raises GraftError where it names no function of `tasks`."""
    job = json.loads(path.read_text(encoding="utf-8"))
    module, _, name = job["work"].partition(":")
    work = getattr(import_module(module), name, None) if module.startswith("tasks.") and name.isidentifier() else None
    if not callable(work):
        raise GraftError(f"{path}: work: {job['work']!r} is no function of tasks; run the stage again")
    return work, Layout(Path(job["root"])), restore_section(Params, job["params"]), job["round"]


def restore_section(section: type[Section], values: dict[str, Any]) -> Any:
    """A section from its `model_dump`, which may be partial."""
    fields = section.model_fields
    return section.model_construct(**{name: _field(fields[name].annotation, value) for name, value in values.items()})


def _field(annotation: Any, value: Any) -> Any:
    types = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    section = next((each for each in types if isinstance(each, type) and issubclass(each, Section)), None)
    if section is not None and isinstance(value, dict):
        return restore_section(section, value)
    return TypeAdapter(annotation).validate_python(value)


def error_to_json(error: Exception) -> str:
    """An error for the waiting process."""
    fields: dict[str, Any] = {"kind": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
    if isinstance(error, OSError) and error.errno is not None:
        fields |= {"kind": "OSError", "errno": error.errno, "strerror": error.strerror, "filename": str(error.filename)}
    return json.dumps(fields)


def error_from_json(text: str) -> Exception:
    """The error of `error_to_json`, its traceback in a note: GraftError and OSError as such, else a RuntimeError."""
    fields = json.loads(text)
    error: Exception
    if fields["kind"] in ERROR_TYPES:
        error = ERROR_TYPES[fields["kind"]](fields["message"])
    elif "errno" in fields:
        error = OSError(fields["errno"], fields["strerror"], fields["filename"])
    else:
        error = RuntimeError(f"{fields['kind']}: {fields['message']}")
    error.add_note(fields["traceback"])
    return error
