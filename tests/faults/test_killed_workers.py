"""What a run has started is killed: the sandbox's zygotes in mid-run, the process that talks to MLflow.

The processes of an update: tests/integration/update/test_update_in_processes.py; those of reward terms of one's own:
tests/unit/reward/test_user_terms.py; in mid-search and in mid-update: test_shard_runners.py and
test_killed_update.py.
"""

from pathlib import Path

import psutil
import pytest

from tasks.params.file import override
from tests.support.aftermath import Bytes, bytes_of
from tests.support.tiny_project import begin

pytestmark = pytest.mark.slow


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
