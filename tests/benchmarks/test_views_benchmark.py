"""The parts of benchmarks.views that read what DVC prints."""

import pytest

from benchmarks.views import BARS, headline_width, table, table_columns

pytestmark = pytest.mark.nightly

METRICS = "Path              before    change    pass@10\nrun/metrics.json  0.75      0.0       0.9\n"
EXPERIMENTS = " ──────\n  Experiment   Created    greedy   pass@10   seed   environment\n ──────\n"


def test_the_columns_of_a_table_are_its_metrics() -> None:
    assert table_columns(METRICS) == ["before", "change", "pass@10"]


def test_the_width_ends_with_the_last_metric() -> None:
    assert headline_width(EXPERIMENTS, "pass@10") == EXPERIMENTS.splitlines()[1].index("pass@10") + len("pass@10")


def test_the_table_has_a_row_for_each_figure() -> None:
    assert table(dict.fromkeys(BARS, 1.0)).row_count == len(BARS)
