"""The choices of the stage `select`: what it measures by, what it keeps, and from whom the update may learn."""

import pytest

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.records.selection import Selected
from tasks.trajectories import Trajectory
from tests.support.groups import write_round
from tests.support.policies import MakeTrajectory
from tests.support.selection_params import kept, numbers, params, run_selection


def test_similarity_changes_influence_and_no_norm(layout: Layout) -> None:
    found = []
    for similarity in ("dot", "local"):
        run_selection(layout, params(similarity=similarity))
        found.append(read_jsonl(layout.selection(1), Selected))
    assert [line.influence for line in found[0]] != [line.influence for line in found[1]]
    assert [line.gradient_norm for line in found[0]] == pytest.approx([line.gradient_norm for line in found[1]])


RIGHT, WRONG = [[5, 6, 7, 8], [5, 6, 9, 8]], [[11, 12, 13], [11, 14, 13]]
"""Completions: of each two that are much alike."""


@pytest.mark.parametrize("similarity", ["dot", "local"])
def test_what_validation_contradicts_is_dropped(
    similarity: str, layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    """Six problems in both splits, the same completions everywhere; rewarded truly in validation."""
    for rewards, kept_count in (([1, 1, 0, 0], 24), ([0, 0, 1, 1], 0)):
        write_round(
            layout,
            [make_trajectory(f"t{n}", rewards, tokens=RIGHT + WRONG) for n in range(6)]
            + [make_trajectory(f"v{n}", [1, 1, 0, 0], "validation", tokens=RIGHT + WRONG) for n in range(6)],
        )
        run_selection(layout, params(similarity=similarity))
        assert (sum(kept(layout)), numbers(layout)["all_kept"]) == (kept_count, 0)


def test_the_update_may_learn_from_validations_completions_too(layout: Layout) -> None:
    run_selection(layout, params())
    alone, before = read_jsonl(layout.selection(1), Selected), numbers(layout)
    run_selection(layout, params(train_on_validation=True))
    lines = read_jsonl(layout.selection(1), Selected)
    assert lines[: len(alone)] == alone
    trajectories = read_jsonl(layout.trajectories(1, "validation"), Trajectory)
    expected = [
        (t.problem_id, m, name)
        for t in trajectories
        for m, name in enumerate(member.workflow_id for member in t.members)
    ]
    mixed = lines[len(alone) :]
    assert [(line.problem_id, line.member, line.workflow_id) for line in mixed] == expected
    assert {(line.split, line.influence) for line in mixed} == {("validation", None)}
    assert all(line.selected == (line.advantage != 0) for line in mixed)
    assert any(line.selected for line in mixed)
    assert numbers(layout) == before | {"mixed": sum(line.selected for line in mixed)}


def test_where_nothing_is_measured_nothing_is_mixed(layout: Layout) -> None:
    run_selection(layout, params(train_on_validation=True, selection="none"))
    assert {line.split for line in read_jsonl(layout.selection(1), Selected)} == {"train"}
    assert numbers(layout)["mixed"] == 0
