"""The processes of a benchmark end with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import has_ended, is_alive
from tests.support.stage_params import REPOSITORY

pytestmark = pytest.mark.nightly

WORKING = """
import os, sys, time
from benchmarks.support.process_pool import pool_of

if __name__ == "__main__":
    with pool_of(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_pool_ends_with_the_process_that_made_it(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "working.py"
    script.write_text(WORKING)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.send_signal(how)
    assert has_ended(child)
