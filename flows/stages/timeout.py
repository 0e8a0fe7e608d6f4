"""Run a stage with a time limit, in a process that is killed with all its descendants."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextvars import copy_context
from pathlib import Path

from flows.process.exit_codes import INTERNAL_ERROR, TRANSIENT_ERROR, USER_ERROR, InternalError
from flows.process.signals import SIGNALLED
from flows.stages.dvc_yaml import stage_of
from tasks.core.child_process import kill_tree, spawn
from tasks.core.terminal import print_remark
from tasks.errors import GraftError, TransientError

ANSWER = "graft: "
"""Prefix of the line on stderr that contains the error."""


def run_limited(root: Path, stage_id: str, seconds: float) -> None:
    """Compute a stage as `dvc repro` does, in at most `seconds`. Writes the same bytes as in this process.

    Raises what the stage raised, or GraftError at the limit. None of its processes outlives this call or this process.
    """
    process = spawn(
        "flows.stages.run",
        *[stage_id, "--tied", *(["--debug"] if "--debug" in sys.argv else [])],
        cwd=root,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    answers: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=copy_context().run, args=(_pass_on, process.stderr, answers), daemon=True)
    reader.start()
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        stage = stage_of(stage_id)
        raise GraftError(
            f"{stage_id}: not done after the {seconds:g} s that machine.schedule.seconds gives {stage}, and killed; "
            f"give it more with -S 'machine.schedule.seconds={{{stage}: {2 * seconds:g}}}', or less to do"
        ) from None
    finally:
        kill_tree(process)
        reader.join(5)
    if code:
        raise _error(stage_id, code, "".join(answers).strip().removeprefix(ANSWER))


def _pass_on(lines: Iterable[str], answers: list[str]) -> None:
    """Print what the stage prints, except its error, which is raised here."""
    for line in lines:
        if line.startswith(ANSWER):
            answers.append(line)
        else:
            print_remark(line.removesuffix("\n"))


def _error(stage_id: str, code: int, line: str) -> BaseException:
    kinds = {USER_ERROR: GraftError, TRANSIENT_ERROR: TransientError}
    if code in kinds:
        return kinds[code](line)
    if code == INTERNAL_ERROR:
        return InternalError(line)
    if code in (-signal.SIGINT, SIGNALLED + signal.SIGINT):
        return KeyboardInterrupt()
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return GraftError(f"{stage_id}: its process was ended from outside ({how}), as where memory is short; run it again")
