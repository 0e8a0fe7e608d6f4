"""Trajectories and the rewards beside them are read as one, or the line that does not fit is named."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.layout import REWARDS
from tasks.records.programs import Result
from tasks.trajectories import RewardedTrajectory, read_numbered_rewarded
from tests.support.groups import make_group, read_rewarded, with_rewards, write_rewarded
from tests.support.records import question_of


def groups_of(sizes: list[int]) -> list[RewardedTrajectory]:
    """Groups of these sizes, in turn of train and validation; equal problems in both splits."""
    return [
        with_rewards(
            make_group(
                [f"return {member % 2}" for member in range(size)],
                [Result(status="ok", value=1)] * size,
                split="validation" if number % 2 else "train",
                problem=question_of("?", problem_id=f"p{number // 2}"),
            ),
            [1.0 / (member + 1) for member in range(size)],
        )
        for number, size in enumerate(sizes)
    ]


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(sizes=sizes)
def test_what_is_written_is_read(sizes: list[int], tmp_path: Path) -> None:
    path = tmp_path / "trajectories.jsonl"
    groups = groups_of(sizes)
    write_rewarded(path, groups)
    assert list(read_rewarded(path)) == groups
    path.write_text("\n" + path.read_text())  # blank lines are skipped, and counted
    assert [number for number, _ in read_numbered_rewarded(path)] == list(range(2, len(sizes) + 2))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(sizes=sizes, kind=st.sampled_from(["lost", "doubled", "swapped"]), data=st.data())
def test_a_reward_that_is_lost_doubled_or_swapped_is_named(
    sizes: list[int], kind: str, data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "trajectories.jsonl"
    write_rewarded(path, groups_of(sizes))
    lines = (tmp_path / REWARDS).read_text().splitlines(keepends=True)
    place = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.integers(0, len(lines) - 1))
    if kind == "lost":
        del lines[place]
    elif kind == "doubled":
        lines.insert(place, lines[place])
    else:
        lines[place], lines[other] = lines[other], lines[place]
    (tmp_path / REWARDS).write_text("".join(lines))
    if kind == "swapped" and place == other:
        assert list(read_rewarded(path)) == groups_of(sizes)
        return
    with pytest.raises(GraftError, match=r"jsonl:\d+: .*; run the reward stage again$") as error:
        list(read_rewarded(path))
    if kind == "lost" and place == len(lines):
        assert f"{path}:{len(sizes)}: completion {sizes[-1] - 1} of problem" in str(error.value)
    else:
        first = {"lost": place, "doubled": place + 1, "swapped": min(place, other)}[kind]
        assert str(error.value).startswith(f"{tmp_path / REWARDS}:{first + 1}: is ")
