"""The audit of rewards by gradients: what it answers, and that it changes nothing that is learned."""

import logging

import pytest

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.records import Selected
from tasks.select.task import run_selection
from tests.support.groups import write_round
from tests.support.policies import MakeTrajectory
from tests.support.selection_params import numbers, params

RIGHT, WRONG = [[5, 6, 7, 8], [5, 6, 9, 8]], [[11, 12, 13], [11, 14, 13]]
"""Completions: of each two that are much alike."""

TRUE = [1.0, 1.0, 0.0, 0.0]


def audited(layout: Layout, make_trajectory: MakeTrajectory, train: list[list[float]], **influence: int) -> None:
    """The audit of groups with these rewards, of the same completions as those of validation, which has true ones."""
    groups = [make_trajectory(f"t{n}", list(rewards), tokens=RIGHT + WRONG) for n, rewards in enumerate(train)]
    held_out = [make_trajectory(f"v{n}", list(TRUE), "validation", tokens=RIGHT + WRONG) for n in range(12)]
    write_round(layout, [*groups, *held_out])
    run_selection(layout, params(selection="audit", **influence), 1)


def test_right_rewards_look_right_and_wrong_ones_err(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        audited(layout, make_trajectory, [TRUE] * 12)
        right = numbers(layout)
        audited(layout, make_trajectory, [TRUE[::-1]] * 4 + [TRUE] * 8)
    wrong = numbers(layout)
    assert (right["audit/right"], right["audit/err"], right["audit/fault_share"]) == (1, 0, 0)
    assert (wrong["audit/right"], wrong["audit/err"]) == (0, 1)
    assert wrong["audit/fault_share"] == pytest.approx(1 / 3)
    assert (wrong["audit/train_groups"], wrong["audit/validation_groups"]) == (12, 12)
    assert "round 1: rewards look right: less than 0% of the training rewards err" in caplog.text
    assert "round 1: rewards err: about 33% of the training rewards" in caplog.text


def test_whatever_is_found_all_is_learned_that_would_be_without_it(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    audited(layout, make_trajectory, [TRUE[::-1]] * 4 + [TRUE] * 8)
    lines = read_jsonl(layout.selection(1), Selected)
    run_selection(layout, params(selection="none"), 1)
    assert lines == read_jsonl(layout.selection(1), Selected)


def test_a_part_of_the_groups_is_measured_that_validations_size_decides(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    audited(layout, make_trajectory, [TRUE] * 40)
    assert numbers(layout)["audit/train_groups"] == 12


def test_less_memory_gives_the_same_answer(
    layout: Layout, make_trajectory: MakeTrajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for size in (2**20, 10_000):  # bytes of a unit of memory_budget
        monkeypatch.setattr("tasks.select.select_samples.MEBIBYTE", size)
        audited(layout, make_trajectory, [TRUE[::-1]] * 4 + [TRUE] * 8, memory_budget=1)
        found.append(numbers(layout))
    assert found[0] == pytest.approx(found[1])


def test_failures_count_although_the_update_learns_from_successes_alone(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    audited(layout, make_trajectory, [TRUE[::-1]] * 4 + [TRUE] * 8)
    both = numbers(layout)
    run_selection(layout, params({"negative_weight": 0.0}, selection="audit"), 1)
    assert {name: value for name, value in numbers(layout).items() if name.startswith("audit/")} == {
        name: value for name, value in both.items() if name.startswith("audit/")
    }


def test_validation_without_a_group_of_unequal_rewards_gives_no_answer(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    write_round(layout, [make_trajectory("t", [1.0, 0.0]), make_trajectory("v", [1.0, 1.0], "validation")])
    with caplog.at_level(logging.WARNING):
        run_selection(layout, params(selection="audit"), 1)
    assert "cannot tell whether rewards err" in caplog.text
    assert (numbers(layout)["audit/right"], numbers(layout)["audit/err"]) == (0, 0)
