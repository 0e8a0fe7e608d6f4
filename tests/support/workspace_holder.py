"""A process that holds the lock of a workspace."""

import subprocess
import sys
from pathlib import Path

from tests.support import tiny_project

HOLD = """
import sys
from pathlib import Path
from flows.process.workspace_lock import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), "graft retrain"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holding(root: Path) -> "subprocess.Popen[str]":
    """Another process that holds the workspace until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)],
        cwd=tiny_project.REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process
