"""Laws of a round's influence extremes and histogram, on seeded random rounds."""

import random

import numpy as np
import pytest

from tasks.records import Problem, Result, Selected
from tasks.statistics.influence_extremes import BINS, COUNT, InfluenceExtremes, histogram, influence_extremes
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import changed, make_group, with_rewards

PROBLEMS, GROUP = 20, 6


def trajectory(number: int, rng: random.Random) -> RewardedTrajectory:
    """A group of three distinct workflows, each written once or more."""
    ids = [f"w{member % 3}" for member in range(GROUP)]
    group = make_group(
        [f"return {workflow_id} of {number}" for workflow_id in ids],
        [Result(status="ok", value=1)] * GROUP,
        problem=Problem(problem_id=f"p{number}", question=f"{number}?", answer=1, source="test"),
        workflow_id=ids,
        proposer=[rng.choice(["sample", "tree"]) for _ in range(3)] * 2,
    )
    return with_rewards(group, [0.0, 0.5, 1.0] * 2)


def a_round(seed: int = 0) -> tuple[list[Selected], list[RewardedTrajectory]]:
    """Influence with long tails; a third of the samples has no gradient."""
    rng = random.Random(seed)
    trajectories = [trajectory(number, rng) for number in range(PROBLEMS)]
    lines = []
    for _, rewards in trajectories:
        for member, reward in enumerate(rewards):
            advantage = member % 3 - 1.0
            influence = advantage * rng.gauss(0, 1e-9) ** 3 * 1e18
            lines.append(line(reward.problem_id, reward.workflow_id, member, advantage, influence))
    return lines, trajectories


def line(problem: str, workflow: str, member: int, advantage: float, influence: float | None) -> Selected:
    norm, selected = None if influence is None else abs(advantage), influence is not None and influence > 0
    measured = {"advantage": advantage, "influence": influence, "gradient_norm": norm, "selected": selected}
    return Selected(problem_id=problem, member=member, workflow_id=workflow, **measured)


def extremes(lines: list[Selected], trajectories: list[RewardedTrajectory]) -> InfluenceExtremes:
    found = influence_extremes(lines, trajectories)
    assert found is not None
    return found


def test_the_ends_are_those_of_all_workflows_in_order_and_each_once() -> None:
    lines, trajectories = a_round()
    best: dict[tuple[str, str], list[float]] = {}
    for own in lines:
        if own.advantage:
            best.setdefault((own.problem_id, own.workflow_id), []).append(own.influence or 0)
    found = extremes(lines, trajectories)
    for rows, end, order in ((found.most, max, -1), (found.least, min, 1)):
        expected = sorted((end(values) for values in best.values()), key=lambda value: order * value)[:COUNT]
        assert [row.influence for row in rows] == expected
        assert [row.rank for row in rows] == list(range(1, COUNT + 1))
        assert len({(row.problem_id, row.code) for row in rows}) == COUNT
        for row in rows:
            workflow_id = row.code.split()[1]
            assert row.influence == end(best[row.problem_id, workflow_id])
            assert row.completions == 2


def test_a_row_says_what_its_own_group_says() -> None:
    lines, trajectories = a_round()
    groups = {group.trajectory.problem_id: group for group in trajectories}
    found = extremes(lines, trajectories)
    for row in (*found.most, *found.least):
        t, rewards = groups[row.problem_id]
        place = [member.code for member in t.members].index(row.code)
        assert (row.reward, row.proposer) == (rewards[place].reward, t.members[place].proposer)
        assert row.question == t.problem.question
        assert row.advantage == place % 3 - 1
        assert row.selected == (row.influence > 0)


def test_turning_every_sign_turns_the_ends_round() -> None:
    lines, trajectories = a_round()
    turned = [own.model_copy(update={"influence": -(own.influence or 0)}) for own in lines]
    there, back = extremes(lines, trajectories), extremes(turned, trajectories)
    assert [row.code for row in there.most] == [row.code for row in back.least]
    assert [row.code for row in there.least] == [row.code for row in back.most]


def test_places_do_not_matter_since_a_selection_leaves_out_what_does_not_fit() -> None:
    lines, trajectories = a_round()
    moved = [own.model_copy(update={"member": 0}) for own in lines]
    assert influence_extremes(moved, trajectories) == influence_extremes(lines, trajectories)


def test_a_round_of_few_workflows_has_them_at_both_ends() -> None:
    lines, trajectories = a_round()
    found = extremes(lines[:GROUP], trajectories)
    assert {row.code for row in found.most} == {row.code for row in found.least}
    assert len(found.most) == 2


def test_a_failed_reward_gives_way_to_the_same_workflow_with_one() -> None:
    lines, (first, *others) = a_round()
    failed = with_rewards(first.trajectory, [None, None, None, 0.0, 0.5, 1.0])
    assert influence_extremes(lines, [failed, *others]) == influence_extremes(lines, [first, *others])


def test_what_has_no_gradient_is_in_nothing() -> None:
    lines, trajectories = a_round()
    found = extremes(lines, trajectories)
    assert sum(bin.selected + bin.not_selected for bin in found.histogram) == sum(own.advantage != 0 for own in lines)
    unseen = [o.model_copy(update={"gradient_norm": 0.0, "influence": 0.0}) if o.advantage < 0 else o for o in lines]
    only = extremes(unseen, trajectories)
    assert {row.advantage for row in (*only.most, *only.least)} == {1.0}


def test_where_influence_was_not_measured_or_validation_is_silent_there_is_nothing() -> None:
    lines, trajectories = a_round()
    unmeasured = [own.model_copy(update={"influence": None, "gradient_norm": None}) for own in lines]
    assert influence_extremes(unmeasured, trajectories) is None
    assert influence_extremes([own.model_copy(update={"influence": 0.0}) for own in lines], trajectories) is None
    assert influence_extremes([], trajectories) is None


def test_a_workflow_that_no_trajectory_holds_is_named() -> None:
    lines, trajectories = a_round()
    with pytest.raises(KeyError, match=r"\('p\d+', 'w\d'\)"):
        influence_extremes(lines, [changed(group, workflow_id=["other"] * GROUP) for group in trajectories])


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_every_sample_is_in_a_bin_of_its_sign(scale: float) -> None:
    rng = np.random.default_rng(0)
    values = scale * rng.standard_t(1.5, 500)
    selected = rng.random(500) < 0.3
    bins = histogram(values.tolist(), selected.tolist())
    assert len(bins) == BINS
    assert (bins[0].low, bins[-1].high) == (values.min(), values.max())
    for bin in bins:
        inside = (bin.low <= values) & ((values < bin.high) | (values == values.max()) & (bin is bins[-1]))
        assert (bin.selected, bin.not_selected) == ((inside & selected).sum(), (inside & ~selected).sum())
        assert bin.high <= 0 or bin.low >= 0
    assert sum(bin.selected + bin.not_selected for bin in bins) == 500
    assert sum(bin.selected for bin in bins if bin.low >= 0) == (selected & (values >= 0)).sum()
    inner = [bin.high for bin in bins[:-1]]
    assert inner == [-edge for edge in reversed(inner)]
    assert np.diff(inner) == pytest.approx(np.diff(inner).mean())


def test_one_influence_among_zeros_is_seen() -> None:
    bins = histogram([0.0] * 99 + [-2.0], [False] * 100)
    assert (bins[0].not_selected, bins[BINS // 2].not_selected) == (1, 99)
