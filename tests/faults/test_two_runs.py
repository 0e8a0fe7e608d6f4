"""Two runs that are started at the same moment: one of them runs, the other says who is at work."""

import re
from pathlib import Path

import pytest

from tests.support import tiny_project
from tests.support.aftermath import ADDRESSES, Bytes, bytes_of
from tests.support.tiny_project import dvc

pytestmark = pytest.mark.slow


def test_a_run_beside_dvc(fresh: Path, undisturbed: Bytes, prefect_url: str) -> None:
    """DVC does not know of our lock, and we hold up to its own: both go on, or one says that the other is at work."""
    process = tiny_project.start(fresh, "retrain", PREFECT_API_URL=prefect_url)
    beside = dvc(fresh, "--wait-for-lock", "repro", "-q", code=None)
    _, told = process.communicate(timeout=400)
    assert process.returncode == 0 or re.search("is busy|at work here|changed while", told), told
    assert beside.returncode == 0 or re.search("is busy|lock", beside.stderr), beside.stderr
    tiny_project.graft(fresh, "stage", *ADDRESSES)
    assert bytes_of(fresh) == undisturbed
