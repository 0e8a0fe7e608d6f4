"""A clock that is set back, and files of the future: what is done is told by contents, never by times."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.aftermath import ADDRESSES, Bytes, bytes_of
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import graft, ran

pytestmark = pytest.mark.slow

DAY = 86_400

BACK = """
import time

_real, _real_ns = time.time, time.time_ns
time.time = lambda: _real() - 400 * 86_400
time.time_ns = lambda: _real_ns() - 400 * 86_400 * 10**9
"""
"""What Python runs at its start where it finds it: each process believes that it is a year ago."""


def test_a_run_whose_clock_was_set_back_ends_with_the_same_bytes(
    fresh: Path, tmp_path: Path, undisturbed: Bytes, prefect_url: str
) -> None:
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim" / "sitecustomize.py").write_text(BACK)
    half = ADDRESSES.index("select@1")
    graft(fresh, "stage", *ADDRESSES[:half])
    told = graft(fresh, "retrain", PREFECT_API_URL=prefect_url, PYTHONPATH=str(tmp_path / "shim"))
    printed = [line.split()[1] for line in told.stdout.splitlines()[: len(ADDRESSES)]]
    assert printed == ["unchanged"] * half + ["ran"] * (len(ADDRESSES) - half)
    assert told.stderr == ""
    assert bytes_of(fresh) == undisturbed
    ran(fresh)
    graft(fresh, "stage", *ADDRESSES)  # with the clock right again
    assert ran(fresh) == []


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
