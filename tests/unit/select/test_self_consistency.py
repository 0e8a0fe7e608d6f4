"""Features of completions from their agreement."""

import numpy as np

from tasks.records.programs import Result
from tasks.select.self_consistency import consistency_features, voters_of
from tests.support.groups import make_group

FAILED = Result(status="error", error="E")


def answer(value: float | str) -> Result:
    return Result(status="ok", value=value)


def test_features_of_a_group() -> None:
    results = [answer(1), answer(1), answer(2), FAILED]
    group = make_group(
        ["a", "b", "c", "d"], results, tokens=[[1], [1, 2], [1], []], logprobs=[[-1.0], [-1.0, -3.0], [], []]
    )
    found = consistency_features(group, voters_of(group, 8))
    shared = [2 / 4, 3 / 4]
    expected = [
        [1, 1 / 3, 1 / 4, 1, *shared, -1, 1],
        [1, 1 / 3, 1 / 4, 1, *shared, -2, 2],
        [1, 0, 2 / 4, 0, *shared, 0, 1],
        [0, 0, 2 / 4, 0, *shared, 0, 0],
    ]
    assert np.allclose(found, expected)


def test_the_first_independent_samples_vote() -> None:
    """Others are compared with them, and counted by no one."""
    group = make_group(
        list("abcde"), [answer(n) for n in (7, 1, 7, 7, 1)], proposer=["tree", *["sample"] * 3, "coldstart"]
    )
    voters = voters_of(group, 2)
    assert voters == [1, 2]
    assert consistency_features(group, voters)[:, 1].tolist() == [1 / 2, 0, 0, 1 / 2, 1 / 2]


def test_siblings_vote_too_and_a_failure_on_one_is_no_vote() -> None:
    siblings = [[answer(3)], [answer(3)], [answer("3")], [FAILED]]
    group = make_group(list("abcd"), [answer(1)] * 4, sibling_results=siblings)
    found = consistency_features(group, voters_of(group, 4))
    assert found[:, 1].tolist() == [1 / 3, 1 / 3, 0, 0]
    assert found[:, 0].tolist() == [1, 1, 1, 0.5]
    assert found[0, 4:6].tolist() == [2 / 4, 3 / 4]
