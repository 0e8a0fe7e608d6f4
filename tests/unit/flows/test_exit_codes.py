"""Law: lack of memory is told as that, with params to lower, wherever it arises; nothing else is."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.preflight import write_params
from flows.process.exit_codes import line_and_code
from tasks.errors import GraftError
from tasks.model.checkpoints.load_errors import translate_errors

REPOSITORY = Path(__file__).parents[3]
TOO_LOW = (
    "memory: this process may use 820 MB of addresses, but its libraries alone take 1024; raise its limit (ulimit -v)"
)

ERRORS = [
    MemoryError(),
    MemoryError("Unable to allocate 8.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:132] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("unable to mmap 1234 bytes from file <model.safetensors>: Cannot allocate memory (12)"),
    RuntimeError("can't start new thread"),
    ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_lack_of_memory_is_told_as_that(error: Exception) -> None:
    line, code = line_and_code(error)
    assert code == 2
    assert line.startswith("memory: this process needs more than it has (")
    assert "ulimit -v" in line
    assert "update.micro_batch_tokens" in line
    with pytest.raises(type(error)) as caught, translate_errors("policy", "rebuild it"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("error", [RuntimeError("no"), ImportError("no module"), ValueError("out of memory")], ids=str)
def test_other_errors_are_not(error: Exception) -> None:
    assert not line_and_code(error)[0].startswith("memory")
    with pytest.raises(GraftError, match=r"rebuild it$"), translate_errors("policy", "rebuild it"):
        raise error


LIMITED = "resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))\n    import torch"
ENDING_BADLY = "def fail():\n        raise MemoryError\n    atexit.register(fail)\n    fail()"


@pytest.mark.parametrize("command", [LIMITED, ENDING_BADLY], ids=["too large a library", "no memory to end"])
def test_a_process_without_memory_ends_with_one_line(command: str) -> None:
    """`ulimit -v` of half of what torch maps; a library whose exit handler fails as well."""
    code = (
        "import atexit, resource, sys\nfrom flows.process.exit_codes import exit_code\n"
        f"def command():\n    {command}\n"
        "sys.exit(exit_code(command, debug=False))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("graft: memory: this process needs more than it has (")


def test_a_limit_below_what_the_libraries_map_is_told_before_they_are_loaded(tmp_path: Path) -> None:
    """With 820 MB OpenBLAS tried again for ever, and no signal ended it."""
    for name in ("flows", "tasks", "params.yaml", "dvc.yaml"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    limited = ["sh", "-c", 'ulimit -v 839680 && exec "$@"', "sh", sys.executable, "-m", "flows.stages.run", "update@1"]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, f"graft: {TOO_LOW}\n")


def test_a_run_under_such_a_limit_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.core.out_of_memory.getrlimit", lambda _: (820 << 20, 820 << 20))
    with pytest.raises(GraftError, match=f"^{re.escape(TOO_LOW)}$"):
        write_params(tmp_path, ["seed=1"], lambda _: None)
