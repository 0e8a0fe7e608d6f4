"""The stage `select` with an audit: what it keeps, measures and writes."""

import logging

import pytest

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.programs import Result
from tasks.records.selection import REMEDY, Selected
from tasks.select import select_samples
from tests.support.groups import changed, write_round
from tests.support.policies import MakeTrajectory
from tests.support.selection_params import numbers, params, run_selection

TOKENS = [[5, 6, 7, 8], [5, 6, 9, 8], [11, 12, 13], [11, 14, 13]]
TRUTH: list[float | None] = [1, 1, 0, 0]
RESULTS = [Result(status="ok", value=value) for value in (1, 1, 2, 3)]
"""Of the completions: the first two are right, and agree."""

PROBLEMS = 40


def write_case(layout: Layout, make_trajectory: MakeTrajectory, train: list[float | None]) -> Params:
    """Problems of both splits with the same completions, rewarded truly in validation."""
    groups = [make_trajectory(f"t{place}", train, tokens=TOKENS) for place in range(PROBLEMS)]
    groups += [make_trajectory(f"v{place}", TRUTH, "validation", tokens=TOKENS) for place in range(PROBLEMS)]
    write_round(layout, [changed(group, result=RESULTS) for group in groups])
    return params(selection="audit", similarity="local", train_on_validation=True)


def selected(layout: Layout, params: Params) -> list[Selected]:
    run_selection(layout, params)
    return read_jsonl(layout.selection(1), Selected)


def test_where_rewards_look_right_all_is_kept_and_validation_is_learned_from(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    lines = selected(layout, write_case(layout, make_trajectory, TRUTH))
    assert all(line.selected for line in lines)
    assert numbers(layout)["audit_right"] == 1
    assert numbers(layout)["mixed"] == sum(line.split == "validation" for line in lines) > 0


def test_where_rewards_err_influence_selects_and_validation_is_learned_from(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    asked = write_case(layout, make_trajectory, [0, 0, 1, 1])
    with caplog.at_level(logging.WARNING, select_samples.__name__):
        lines = selected(layout, asked)
    assert numbers(layout)["audit_err"] == 1
    assert "rewards err, about" in caplog.text
    assert REMEDY in caplog.text
    train = [line for line in lines if line.split == "train"]
    assert all(line.influence is not None for line in train)
    assert [line.selected for line in train] == [(line.influence or 0) > 0 for line in train]
    assert not any(line.selected for line in train)  # each contradicts all of validation
    assert numbers(layout)["certificate_slope"] == pytest.approx(-1, abs=0.05)
    mixed = [line for line in lines if line.split == "validation"]
    assert len(mixed) == PROBLEMS * len(TOKENS)
    assert all(line.selected for line in mixed)


def test_influence_of_a_part_of_the_groups_is_shown_and_decides_nothing(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    asked = write_case(layout, make_trajectory, TRUTH)
    lines = selected(layout, asked)
    measured = {line.problem_id for line in lines if line.influence is not None}
    assert 1 <= len(measured) < PROBLEMS
    assert all((line.influence is not None) == (line.problem_id in measured) for line in lines)
    assert [line.influence for line in selected(layout, asked)] == [line.influence for line in lines]
    assert "certificate_slope" not in numbers(layout)
