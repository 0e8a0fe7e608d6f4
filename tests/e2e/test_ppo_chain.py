"""The real chain with algorithm ppo."""

import csv
from statistics import fmean

import pytest
from safetensors.torch import load_file

from benchmarks.support.workspace import make_workspace
from tasks.artifacts import read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.records import Selected
from tests.e2e.test_answer_chain import SMALL, retrained

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PPO = [
    "environment=answer",
    "algorithm=ppo",
    "influence.similarity=dot",
    "influence.n=8",
    "update.epochs=8",
    "rounds=2",
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Two rounds from scratch, with a selection by influence."""
    root = make_workspace(tmp_path_factory.mktemp("ppo") / "project", [*SMALL, *PPO])
    return retrained(root)


def by_epoch(layout: Layout, round: int, name: str) -> list[float]:
    rows = list(csv.DictReader(layout.steps(round).read_text().splitlines()))
    epochs = sorted({int(row["epoch"]) for row in rows})
    return [fmean(float(row[name]) for row in rows if int(row["epoch"]) == epoch) for epoch in epochs]


def test_the_value_head_is_in_the_folder_of_each_rounds_policy(answers: Layout) -> None:
    assert not answers.value_head(0).exists()
    first, second = (load_file(answers.value_head(round)) for round in (1, 2))
    assert first.keys() == second.keys() == {"weight", "bias"}
    assert not (first["weight"] == second["weight"]).all()
    assert (answers.run_policy / "value_head.safetensors").exists()


def test_the_values_explain_more_and_more_of_the_returns(answers: Layout) -> None:
    explained = by_epoch(answers, 1, "explained_variance")
    assert explained[-1] > max(explained[0], 0.03)
    assert abs(by_epoch(answers, 1, "value")[0]) < abs(by_epoch(answers, 2, "value")[0])  # the head was carried


def test_the_form_is_learnt_and_selection_has_its_certificate(answers: Layout) -> None:
    first, last = (read_metrics(answers, f"reward@{round}") for round in (1, 2))
    assert 0 < first["hard_format/mean"] < last["hard_format/mean"]
    assert read_metrics(answers, "select@1")["certificate_slope"] == pytest.approx(-1, abs=0.05)
    lines = read_jsonl(answers.selection(1), Selected)
    assert {line.selected for line in lines} == {True, False}


def test_the_page_shows_the_explained_variance(answers: Layout) -> None:
    assert "that the values explain" in answers.page.read_text()
