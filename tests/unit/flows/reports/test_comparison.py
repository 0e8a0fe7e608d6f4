"""Paired tests of runs: cases with a known answer, and the share of false alarms."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from flows.reports.comparison import (
    Side,
    contrasts,
    differing_params,
    make_sides,
    p_value,
    remarks,
    sign_flip_p,
    title_of,
)
from flows.reports.run_record import RunRecord, read_run_record
from tasks.artifacts import read_jsonl, write_jsonl
from tasks.errors import GraftError
from tasks.records.problems import Problem
from tests.support import finished_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunRecord]:
    root = tmp_path_factory.mktemp("runs")
    changed = [(), ("update.beta=0.05",), ("update.beta=0.05", "evaluation.temperature=1.0")]
    return [read_run_record(finished_run.write(root / str(i), seed=i, assignments=a)) for i, a in enumerate(changed)]


def sides(*runs: RunRecord) -> list[Side]:
    """The runs, called 0, 1, 2 …"""
    return make_sides([(str(i), run) for i, run in enumerate(runs)])


@given(gained=st.integers(0, 6), lost=st.integers(0, 6), same=st.integers(0, 20))
def test_the_p_value_of_yes_or_no_outcomes_is_mcnemars(gained: int, lost: int, same: int) -> None:
    after, before = [1.0] * gained + [0.0] * lost + [1.0] * same, [0.0] * gained + [1.0] * lost + [1.0] * same
    known = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert sign_flip_p(after, before, seed=0) == pytest.approx(known, abs=1e-12)


@given(st.lists(st.sampled_from([-0.5, -0.25, -0.125, 0.25, 0.5, 1.0]), min_size=2, max_size=9))
def test_the_p_value_of_few_problems_counts_every_pattern_of_signs(differences: list[float]) -> None:
    patterns = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum(d * s for d, s in zip(differences, signs, strict=True))) for signs in patterns]
    known = sum(found >= abs(sum(differences)) for found in sums) / len(sums)
    assert sign_flip_p(differences, [0.0] * len(differences), seed=0) == pytest.approx(known, abs=1e-12)


def test_exactly_the_params_that_differ_or_that_a_run_lacks_are_listed(runs: list[RunRecord]) -> None:
    expected = {"update.beta": ["0.01", "0.05", "0.05"], "evaluation.temperature": ["0.8", "0.8", "1.0"]}
    assert differing_params(sides(*runs)) == expected
    newer = runs[0].model_copy(update={"params": {**runs[0].params, "update.new": "1"}})
    assert differing_params(sides(runs[0], newer)) == {"update.new": ["–", "1"]}


def test_each_run_is_compared_with_the_first_after_both(runs: list[RunRecord]) -> None:
    found = contrasts(sides(*runs))
    assert [(c.first, c.second) for c in found] == [("A", "B"), ("A", "C")]
    rows = {change.name: change for change in found[1].changes}
    assert list(rows)[:4] == [f"pass_at_1_greedy{part}" for part in ("", "_seen", "_unseen", "_operations_1")]
    greedy = [[float(o.greedy) for o in runs[i].outcomes["after"]] for i in (0, 2)]
    row = rows["pass_at_1_greedy"]
    assert (row.first, row.second) == (sum(greedy[0]) / 24, sum(greedy[1]) / 24)
    assert row.difference.mean == pytest.approx(row.second - row.first)
    gained, lost = (sum(a > b for a, b in zip(x, y, strict=True)) for x, y in (greedy[::-1], greedy))
    assert row.p == pytest.approx(binomtest(gained, gained + lost).pvalue, abs=0.06)
    assert (row.problems, rows["pass_at_1_greedy_unseen"].problems) == (24, 6)


def test_a_single_run_is_compared_with_its_start_and_a_run_with_itself_is_the_same(runs: list[RunRecord]) -> None:
    (alone,) = contrasts(sides(runs[0]))
    assert (alone.first, alone.second) == ("before", "after")
    assert alone.changes[0].first == runs[0].metrics["evaluate@before"]["pass_at_1_greedy"]
    (twins,) = contrasts(sides(runs[0], runs[0]))
    assert all(change.difference == (0, 0, 0) and change.p == 1 for change in twins.changes)


def test_problems_are_paired_by_name_not_by_place(runs: list[RunRecord]) -> None:
    outcomes = {when: list(reversed(found)) for when, found in runs[1].outcomes.items()}
    shuffled = runs[1].model_copy(update={"outcomes": outcomes})
    assert contrasts(sides(runs[0], shuffled)) == contrasts(sides(runs[0], runs[1]))


def test_only_the_ks_of_both_are_compared(runs: list[RunRecord]) -> None:
    other = runs[1].model_copy(update={"params": {**runs[1].params, "evaluation.ks": "[1, 10]"}})
    (found,) = contrasts(sides(runs[0], other))
    assert {"pass_at_5", "pass_at_10"} & {change.name for change in found.changes} == {"pass_at_10"}


def test_runs_on_other_problems_are_refused_with_both_digests(tmp_path: Path, runs: list[RunRecord]) -> None:
    layout = finished_run.write(tmp_path)
    problems = read_jsonl(layout.problems("test"), Problem)
    write_jsonl(layout.problems("test"), [problems[0].model_copy(update={"answer": 77}), *problems[1:]])
    other = read_run_record(layout)
    refusal = r"^0 and 1: tested on different problems.* run one again with the other's seed and problems params"
    with pytest.raises(GraftError, match=refusal) as refused:
        sides(runs[0], other)
    for record in (runs[0], other):
        assert record.test_sha256[:12] in str(refused.value)


def test_a_difference_in_measuring_is_remarked(runs: list[RunRecord]) -> None:
    assert remarks(sides(runs[0], runs[1])) == []
    differs = "evaluation.temperature differs: the runs were not measured in the same way."
    assert remarks(sides(runs[0], runs[2])) == [differs]


def test_measures_are_called_as_in_the_report() -> None:
    titles = {"pass_at_1_greedy": "pass@1 greedy", "pass_at_1_greedy_seen": "pass@1 greedy seen"}
    titles |= {"pass_at_1_greedy_operations_2": "pass@1 greedy operations: 2", "siblings_passed": "siblings passed"}
    titles |= {"pass_at_5": "pass@5 sampled", "maj_at_10": "maj@10 sampled"}
    assert {name: title_of(name) for name in titles} == titles
    assert [p_value(p) for p in (0.0004, 0.001, 0.04567, 1.0)] == ["< 0.001", "0.001", "0.046", "1.000"]
