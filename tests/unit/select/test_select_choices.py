"""The choices of the stage `select`: what it measures by, what it keeps, and from whom the update may learn."""

import logging
from typing import Any

import pytest

from tasks.artifacts import read_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records import Selected
from tasks.select.task import run
from tasks.trajectories import Trajectory
from tests.support.groups import changed, write_rewarded
from tests.support.policies import MakeTrajectory
from tests.support.selection_params import kept, numbers, params


def test_every_choice_of_influence_does_something(layout: Layout) -> None:
    run(layout, params(validation="same_batch"), 1)
    plain = read_jsonl(layout.selection(1), Selected)
    for change in (
        {"loss": "seqloss_reward"},
        {"loss": "contrastive"},
        {"similarity": "cosine"},
        {"similarity": "local"},
        {"validation": "held_out"},
    ):
        run(layout, params(**{"validation": "same_batch", **change}), 1)
        changed = read_jsonl(layout.selection(1), Selected)
        assert [line.influence for line in changed] != [line.influence for line in plain], change
        assert [line.gradient_norm for line in changed] == pytest.approx([line.gradient_norm for line in plain])


def test_rule_and_fraction_reach_the_selection(layout: Layout) -> None:
    for rule, sign in (("top_fraction", 1), ("bottom_fraction", -1)):
        run(layout, params(selection=rule, fraction=0.4), 1)
        lines = [line for line in read_jsonl(layout.selection(1), Selected) if line.advantage]
        ranked = sorted(lines, key=lambda line: -sign * (line.influence or 0))
        assert [line.selected for line in ranked] == [n < -(-4 * len(lines) // 10) for n in range(len(lines))]


RIGHT, WRONG = [[5, 6, 7, 8], [5, 6, 9, 8]], [[11, 12, 13], [11, 14, 13]]
"""Completions: of each two that are much alike."""


def control_case(layout: Layout, make_trajectory: MakeTrajectory, train: list[float], **influence: Any) -> Params:
    """Six problems in both splits, the same completions everywhere; rewarded truly in validation."""
    write_rewarded(
        layout.trajectories(1),
        [make_trajectory(f"t{n}", train, tokens=RIGHT + WRONG) for n in range(6)]
        + [make_trajectory(f"v{n}", [1, 1, 0, 0], "validation", tokens=RIGHT + WRONG) for n in range(6)],
    )
    return params(**{"similarity": "local", "fdr_control": True, **influence})


@pytest.mark.parametrize("similarity", ["dot", "cosine", "local"])
def test_a_sample_like_those_of_validation_is_not_dropped(
    similarity: str, layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    run(layout, control_case(layout, make_trajectory, [1, 1, 0, 0], similarity=similarity), 1)
    assert (sum(kept(layout)), numbers(layout)["all_kept"], numbers(layout)["fault_share"]) == (24, 1, 0)
    run(layout, control_case(layout, make_trajectory, [0, 0, 1, 1], similarity=similarity), 1)
    assert (sum(kept(layout)), numbers(layout)["all_kept"]) == (0, 0)
    assert numbers(layout)["fault_share"] == 1


@pytest.mark.parametrize(
    "without", [{"fdr_control": False}, {"selection": "top_fraction"}, {"validation": "same_batch"}], ids=str
)
def test_without_control_there_is_none(
    without: dict[str, Any], layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    run(layout, control_case(layout, make_trajectory, [1, 1, 0, 0], **without), 1)
    assert "fault_share" not in numbers(layout)


def test_the_update_may_learn_from_validations_completions_too(layout: Layout) -> None:
    run(layout, params(), 1)
    alone, before = read_jsonl(layout.selection(1), Selected), numbers(layout)
    run(layout, params(train_on_validation=True), 1)
    lines = read_jsonl(layout.selection(1), Selected)
    assert lines[: len(alone)] == alone
    trajectories = read_jsonl(layout.trajectories(1), Trajectory)
    judges = [t for t in trajectories if t.split == "validation"]
    expected = [
        (t.problem_id, m, name) for t in judges for m, name in enumerate(member.workflow_id for member in t.members)
    ]
    mixed = lines[len(alone) :]
    assert [(line.problem_id, line.member, line.workflow_id) for line in mixed] == expected
    assert {(line.split, line.influence, line.weight) for line in mixed} == {("validation", None, 1.0)}
    assert all(line.selected == (line.advantage != 0) for line in mixed)
    assert any(line.selected for line in mixed)
    assert numbers(layout) == before | {"mixed": sum(line.selected for line in mixed)}


@pytest.mark.parametrize(
    "other", [{"validation": "same_batch"}, {"selection": "none"}, {"selection": "random"}], ids=str
)
def test_where_nothing_is_held_out_nothing_is_mixed(other: dict[str, Any], layout: Layout) -> None:
    run(layout, params(train_on_validation=True, **other), 1)
    assert {line.split for line in read_jsonl(layout.selection(1), Selected)} == {"train"}
    assert numbers(layout)["mixed"] == 0


def test_a_warning_says_that_nothing_is_selected(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    trajectories = [make_trajectory("t", [1.0, 1.0]), make_trajectory("v", [1, 0], split="validation")]
    write_rewarded(layout.trajectories(1), trajectories)
    with caplog.at_level(logging.WARNING):
        run(layout, params(), 1)
    assert "nothing is selected: the update of round 1 will change nothing" in caplog.text


def test_fixed_trajectories_are_validation_whoever_wrote_them(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    old = [changed(make_trajectory(f"v{i}", [0.0, 1.0, 1.0]), policy_version="old") for i in range(3)]
    write_rewarded(layout.root / "old.jsonl", old)
    run(layout, params(), 1)
    held_out = [line.influence for line in read_jsonl(layout.selection(1), Selected)]
    run(layout, params(validation="old.jsonl"), 1)
    assert [line.influence for line in read_jsonl(layout.selection(1), Selected)] == pytest.approx(held_out)
    write_text(layout.root / "old.jsonl", '{"problem_id": "v0", "workflow_codes": []}\n')  # of an earlier Graft
    with pytest.raises(GraftError, match=r"old\.jsonl:1: split: Field required; fix the line or rebuild the file$"):
        run(layout, params(validation="old.jsonl"), 1)
