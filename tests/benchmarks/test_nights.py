"""Nights of a scheduled retraining, with real servers and a clock that is set."""

import shutil
from pathlib import Path

import pytest

from benchmarks.nights.month import Month
from benchmarks.nights.plan import NIGHTS


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here")
def test_a_promotion_and_a_run_that_is_killed_have_their_alerts(tmp_path: Path) -> None:
    figures = Month(tmp_path, None).run(dict(enumerate(NIGHTS[number] for number in (5, 8, 9))))
    assert figures.right == 3, figures.nights
    assert (figures.double, figures.alerts_missed, figures.alerts_false, figures.lost) == (0, 0, 0, 0)
    assert 0 <= figures.alert_seconds < 60
