"""The processes of a benchmark end with it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

PROJECT = Path(__file__).parents[2]
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
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(how)
    deadline = time.monotonic() + 60
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
