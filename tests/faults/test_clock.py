"""A clock that is set back, and files of the future: what is done is told by contents, never by times."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.aftermath import ADDRESSES
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import graft, ran

pytestmark = pytest.mark.slow

DAY = 86_400


@pytest.mark.parametrize("days", nightly_but_first([400, -4000]))
def test_times_of_files_mean_nothing(done: Path, days: int, ends_well: Callable[[Path], None]) -> None:
    """Old, or of the future; and of one the content has changed as well, with its times as they were."""
    then = time.time() + days * DAY
    for path in [done / "dvc.lock", done / "params.yaml", *(done / "run").rglob("*"), *(done / ".dvc").rglob("*")]:
        os.utime(path, (then, then))
    changed = done / "run" / "rounds" / "1" / "selection.jsonl"
    content = changed.read_bytes()
    changed.write_bytes(content[:-2] + b"!\n")
    os.utime(changed, (then, then))
    told = graft(done, "stage", *ADDRESSES)
    assert [line.split()[0] for line in told.stdout.splitlines() if "unchanged" not in line] == ["select@1"]
    ends_well(done)
    ran(done)
    shutil.rmtree(done / "run")
    ends_well(done)
    assert ran(done) in ([], ["promote"])
