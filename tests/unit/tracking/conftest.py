"""The files of a run that tracking reads."""

from pathlib import Path

import pytest

from tasks.artifacts import write_json
from tasks.layout import Layout
from tests.support.mlflow_runs import decide

HEADLINE = {
    "greedy": 0.7,
    "before": 0.4,
    "change": 0.3,
    "low": 0.1,
    "high": 0.5,
    "promoted": 1,
    "sampled": 0.6,
    "pass@10": 0.9,
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """What a run of two rounds leaves, as far as tracking reads it."""
    layout = Layout(tmp_path)
    write_json(layout.metrics("problems"), {"train": 200})
    for number in (1, 2):
        numbers = {"epoch/mean_reward": 0.1 * number, "epoch/accumulated_reward": 100.0 * number, "failed": 0}
        write_json(layout.metrics("reward", number), numbers)
        write_json(layout.metrics("update", number), {"kl": 0.01 * number, "entropy": 0.5, "loss": 1.0})
    write_json(layout.metrics("evaluate", "after"), {"pass_at_1": 0.7, "pass_at_1_low": 0.6})
    write_json(layout.metrics("promote"), {"promoted": 1})
    write_json(layout.headline, HEADLINE)
    decide(layout, "aaaa", promoted=True)
    (tmp_path / "dvc.lock").write_text("schema: '2.0'\n")
    return layout


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
