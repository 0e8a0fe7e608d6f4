"""What a run has started is killed: the sandbox's zygotes in mid-run, the process that talks to MLflow.

The processes of an update: tests/integration/update/test_update_in_processes.py; those of reward terms of one's own:
tests/unit/reward/test_user_terms.py; in mid-search and in mid-update: test_shard_runners.py and
test_killed_update.py.
"""

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tasks.params.file import override
from tasks.programs.sandbox.sandbox import SANDBOX_DIED, Program, Sandbox
from tasks.records import Result
from tests.support.aftermath import Bytes, bytes_of
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import begin

pytestmark = pytest.mark.slow

QUESTIONS = tuple(f"{number} eggs and {number + 3} more?" for number in range(4))


def programs() -> list[Program]:
    """Right, wrong and broken ones; half of them plain, half in a child of their own, some take a while."""
    bodies = ["return n[0] + n[1]", "return n[0] / 0", "return sum(range(n[1] * 20000))", "return [n[0]] * 3"]
    bodies += [f"return n[0] * {number}" for number in range(60)]
    plain = [f"def solve(problem):\n    n = numbers(problem)\n    {body}\n" for body in bodies]
    return [Program(code, QUESTIONS) for code in [*plain, *("import math\n" + code for code in plain)]]


@pytest.mark.parametrize("seed", nightly_but_first(range(3)))
def test_no_program_is_wrong_because_its_zygote_was_killed(seed: int) -> None:
    """Its result is the same, or `failed`, which is never scored: not an error, not a timeout."""
    with Sandbox(5.0, 256, allow_weak=True, workers=2) as sandbox:
        undisturbed = sandbox.run(programs())
    kills, over, rng = 0, threading.Event(), random.Random(seed)
    with Sandbox(5.0, 256, allow_weak=True, workers=2) as sandbox:

        def kill() -> None:
            nonlocal kills
            while not over.wait(rng.uniform(0.05, 0.4)):
                for pid in rng.sample(sandbox.pids, min(1, len(sandbox.pids))):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        kills += 1

        killer = threading.Thread(target=kill)
        killer.start()
        died = Result(status="failed", error=SANDBOX_DIED)
        try:
            while kills < 5:
                for expected, found in zip(undisturbed, sandbox.run(programs()), strict=True):
                    assert all(f in (e, died) for e, f in zip(expected, found, strict=True))
        finally:
            over.set()
            killer.join()
        assert sandbox.run(programs()) == undisturbed  # and when nobody disturbs any more all is well


def test_a_run_whose_mlflow_process_is_killed_says_what_is_missing(
    fresh: Path, undisturbed: Bytes, prefect_url: str
) -> None:
    override(fresh / "params.yaml", ["machine.tracking.uri=sqlite:///mlflow.db"])
    process = begin(fresh, "reward@1", "retrain", PREFECT_API_URL=prefect_url, TINY_SECONDS="3")
    (worker,) = [
        one for one in psutil.Process(process.pid).children() if "tasks.tracking.mlflow_worker" in one.cmdline()
    ]
    worker.kill()
    _, told = process.communicate(timeout=400)
    assert process.returncode == 0
    line = told.splitlines()[-1]  # the one before says that the tiny stages measure no influence
    assert line.startswith("warning: MLflow (sqlite:///mlflow.db): its process ended with -9")
    assert bytes_of(fresh) == undisturbed
