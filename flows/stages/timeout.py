"""A stage in a process of its own, which is killed with all that it has started when its time is up."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from flows.process.exit_codes import INTERNAL_ERROR, TRANSIENT_ERROR, USER_ERROR, InternalError
from flows.stages.dvc_yaml import stage_of
from tasks.core.child_process import kill_tree, spawn
from tasks.errors import GraftError, TransientError

ANSWER = "graft: "
"""What the line on stderr begins with that says what went wrong."""


def run_limited(root: Path, address: str, seconds: float) -> None:
    """Compute a stage as `dvc repro` does, for so many seconds at most. Writes the same bytes as in this process.

    Raises what the stage raised, and GraftError where it took longer. None of its processes outlives this call, nor
    this process.
    """
    process = _start(root, address)
    answers: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=_pass_on, args=(process.stderr, answers), daemon=True)
    reader.start()
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        stage = stage_of(address)
        raise GraftError(
            f"{address}: not done after the {seconds:g} s that schedule.seconds gives {stage}, and killed; give it "
            f"more with -S 'schedule.seconds={{{stage}: {2 * seconds:g}}}', or less to do"
        ) from None
    finally:
        kill_tree(process)
        reader.join(5)
    if code:
        raise _error(address, code, "".join(answers).strip().removeprefix(ANSWER))


def _start(root: Path, address: str) -> "subprocess.Popen[str]":
    """Away from the terminal's process group, so that Ctrl-C reaches it from here; tied to us by its input."""
    debug = ["--debug"] if "--debug" in sys.argv else []
    return spawn(
        "flows.stages.run",
        *[address, "--tied", *debug],
        cwd=root,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def _pass_on(lines: Iterable[str], answers: list[str]) -> None:
    """What it says goes on; its last word is ours to say."""
    for line in lines:
        if line.startswith(ANSWER):
            answers.append(line)
        else:
            print(line, end="", file=sys.stderr, flush=True)


def _error(address: str, code: int, line: str) -> BaseException:
    kinds: dict[int, type[Exception]] = {
        USER_ERROR: GraftError,
        TRANSIENT_ERROR: TransientError,
        INTERNAL_ERROR: InternalError,
    }
    if code in kinds:
        return kinds[code](line)
    if code == -signal.SIGINT or code == 128 + signal.SIGINT:
        return KeyboardInterrupt()
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return GraftError(f"{address}: its process was ended from outside ({how}), as where memory is short; run it again")
