"""The completions that become traces: bounded, of every kind, the same each time."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import write_jsonl
from tasks.records import Problem, Result, Selected, Sibling
from tasks.tracking.trace_sample import COUNT, SampledCompletion, read_sample, traces_by_round
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import changed, write_rewarded
from tests.support.selections import selected_by_influence

MAKE = Callable[..., RewardedTrajectory]
RESULTS = [Result(status="ok", value=1), Result(status="ok", value=2), Result(status="error", error="ValueError: no")]
"""Right, wrong and invalid: the answer of every problem is 1."""


@pytest.fixture
def files(tmp_path: Path, make_trajectory: MAKE) -> tuple[Path, Path]:
    """A round of 300 problems with three completions each, in the order of RESULTS."""
    groups = [make_trajectory(f"p{number}", [1.0, 0.0, 0.0]) for number in range(300)]
    groups = [changed(group, result=RESULTS) for group in groups]
    draw = random.Random(0)
    lines = [line for group in groups for line in selected_by_influence(group, [draw.gauss(0, 1) for _ in range(3)])]
    return write(tmp_path, groups, lines)


def write(folder: Path, groups: list[RewardedTrajectory], lines: list[Selected]) -> tuple[Path, Path]:
    paths = folder / "trajectories.jsonl", folder / "selection.jsonl"
    write_rewarded(paths[0], groups)
    write_jsonl(paths[1], lines)
    return paths


def sample(files: tuple[Path, Path], count: int = 20, seed: int = 1) -> list[SampledCompletion]:
    return read_sample(*files, 1, count, seed)


def test_a_sample_has_each_outcome_and_both_ends_of_influence_and_is_a_function_of_the_seed(
    files: tuple[Path, Path],
) -> None:
    chosen = sample(files)
    assert len({each.key for each in chosen}) == len(chosen) == 20
    assert min(Counter(each.outcome for each in chosen).values()) >= 4
    influences = sorted(line.influence or 0 for line in lines_of(files))
    own = {each.influence for each in chosen}
    assert own >= {*influences[:4], *influences[-4:]}
    assert sample(files) == chosen
    assert sample(files, seed=2) != chosen


def lines_of(files: tuple[Path, Path]) -> list[Selected]:
    return [Selected.model_validate_json(line) for line in files[1].read_text().splitlines()]


def test_a_round_of_few_completions_has_each_once(tmp_path: Path, make_trajectory: MAKE) -> None:
    """Also one that wrote the same workflow several times, and whose selection has no line of a member."""
    group = make_trajectory("p", [1.0, 0.0, 1.0])
    problem = Problem(
        problem_id="p", question="2 and 1?", answer=3, source="t", siblings=[Sibling(question="2 and 2?", answer=4)]
    )
    ids, results = ["a", "b", "a"], [Result(status="ok", value=3), RESULTS[2], Result(status="ok", value=3)]
    siblings = [[Result(status="ok", value=5)], [RESULTS[2]], [Result(status="ok", value=5)]]
    changes = {"workflow_id": ids, "result": results, "sibling_results": siblings, "problem": problem}
    group = changed(group, **changes)
    line = selected_by_influence(group, [0.5, None, None])[0]
    right, invalid = sorted(sample(write(tmp_path, [group], [line])), key=lambda each: each.key)
    assert (right.outcome, right.copies, right.selection, right.reward.reward) == ("right", 2, line, 1.0)
    assert (invalid.outcome, invalid.copies, invalid.selection, invalid.influence) == ("invalid", 1, None, None)
    assert [(p.question, p.expected, p.result) for p in right.programs] == [
        ("2 and 1?", 3, results[0]),
        ("2 and 2?", 4, siblings[0][0]),
    ]


def test_a_round_without_completions_has_no_sample(tmp_path: Path) -> None:
    assert sample(write(tmp_path, [], [])) == []


@pytest.mark.parametrize("last", [1, 2, 7])
def test_a_run_has_as_many_traces_whatever_its_rounds(last: int) -> None:
    assert sum(traces_by_round(last).values()) == COUNT
    assert set(traces_by_round(last)) == {1, last}
