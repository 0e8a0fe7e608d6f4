"""A step that is killed at each of its calls to the file system in turn, each time in a fresh copy of a folder."""

import subprocess
import sys
from pathlib import Path

CHILD = """
import os, shutil, sys
from pathlib import Path

from tasks import artifacts
from tasks.layout import Layout
from tasks.promote.challenger import approve_challenger
from tasks.artifacts import read_json
from tasks.promote.champion import roll_back
from tasks.promote.latest import keep_latest
from tasks.records.promotion import Promotion

folder, step, exchange = Path(sys.argv[1]), compile(sys.argv[2], "step", "eval"), sys.argv[3] == "True"
CALLS = {"open", "os.link", "os.rename", "os.remove", "os.rmdir", "os.mkdir"}
calls, last = 0, 10**9

def count(event, _):
    global calls
    calls += event in CALLS
    if event in CALLS and calls == last:
        os.kill(os.getpid(), 9)

if not exchange:
    artifacts._exchange = lambda *_: False
for moment in range(1, 1000):
    root = folder.with_name(f"{folder.name}-{moment}")
    shutil.copytree(folder, root)
    child = os.fork()
    if child == 0:
        calls, last = 0, moment
        sys.addaudithook(count)
        eval(step)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(moment)
        break
"""


def killed_at_each_call(folder: Path, step: str, exchange: bool) -> list[Path]:
    """The copies of `folder`, one for each call of `step`, an expression about `root`; in the last it came to its end.

    `exchange`: the file system can exchange two folders in one step.
    """
    command = [sys.executable, "-c", CHILD, str(folder), step, str(exchange)]
    last = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert last > 20
    return [folder.with_name(f"{folder.name}-{moment}") for moment in range(1, last + 1)]
