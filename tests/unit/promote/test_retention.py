"""Retention: which test sets stay, and that a policy that may have lost one of them is not promoted."""

from random import Random

import pytest

from tasks.known_problems import keys_of
from tasks.promote.gate import decide_promotion
from tasks.promote.retention import compare_kept, describe_kept, hold_back, sets_after, sets_to_compare
from tasks.records.problems import Problem
from tasks.records.promotion import KeptResult, KeptSet, Promotion


def problems(source: str, first: int, count: int = 20) -> list[Problem]:
    return [
        Problem(problem_id=f"p{number}", question=f"{source} {number}?", answer=1, source=source)
        for number in range(first, first + count)
    ]


def kept(version: str, source: str, first: int = 0) -> KeptSet:
    return KeptSet(name=version, problems=problems(source, first))


def names(sets: list[KeptSet]) -> list[str]:
    return [each.name for each in sets]


@pytest.mark.parametrize(("keep", "stays"), [(0, ["e"]), (1, ["e", "d"]), (2, ["e", "d", "a"])])
def test_sets_of_other_sources_stay_up_to_the_number_and_one_that_is_renewed_once(keep: int, stays: list[str]) -> None:
    """Of a window that slides by a quarter, the set of the first night stays until half of it is gone."""
    sets: list[KeptSet] = []
    for version, first in (("a", 0), ("b", 5), ("c", 10), ("d", 15)):
        sets = sets_after(sets, kept(version, "window", first), most=keep)
    assert names(sets) == ["d", "a"][: keep + 1]
    sets = sets_after(sets, kept("e", "other"), most=keep)
    assert names(sets) == stays


def test_compared_is_what_tonights_problems_do_not_cover_and_neither_policy_learnt_from() -> None:
    sets = [kept("a", "a.jsonl"), kept("b", "b.jsonl"), kept("c", "c.jsonl")]
    assert names(sets_to_compare(sets, problems("a.jsonl", 3), 5, ())) == ["b", "c"]
    assert names(sets_to_compare(sets, problems("d.jsonl", 0), 2, ())) == ["a", "b"]
    assert sets_to_compare(sets, problems("d.jsonl", 0), 0, ()) == []
    learnt = [*problems("b.jsonl", 0, 8), *problems("c.jsonl", 0, 12)]
    (first, second) = sets_to_compare(sets, problems("d.jsonl", 0), 3, keys_of(*learnt))
    assert (first, second.name, second.problems) == (sets[0], "b", problems("b.jsonl", 8, 12))


def better() -> Promotion:
    """A policy that passed the gate."""
    return decide_promotion([True] * 30, [False] * 30, "new", "old", seed=0)


def compared(ours: list[float], theirs: list[float], lower: bool = False) -> KeptResult:
    return compare_kept(kept("a.jsonl (2864c512)", "a.jsonl"), ours, theirs, 0.1, 0, lower)


def test_a_policy_is_held_back_unless_a_loss_of_the_margin_is_ruled_out() -> None:
    same, worse = [1.0, 0.0] * 100, [1.0, 0.0, 0.0, 0.0] * 50
    few = [*[1.0, 0.0] * 98, 0.0, 1.0, 0.0, 1.0]  # two lost, two won
    for ours, lost in ((same, False), (few, False), (worse, True), ([1.0] * 200, False)):
        result = compared(ours, same)
        decision = hold_back(better(), [result], 0.1)
        assert (result.lost, decision.promoted, decision.kept) == (lost, not lost, [result])
        assert decision.worse == (ours == worse)  # left behind
    held = hold_back(better(), [compared(same, same), compared(worse, same)], 0.1)
    end = "; but it may have lost more than promotion.margin 0.1 on the earlier test problems of a.jsonl (2864c512)"
    assert held.reason.startswith("not promoted: 1.000 beats the champion's 0.000 by 1.000")
    assert held.reason.endswith(end)
    line = describe_kept(held.kept[1])
    assert line.startswith("200 earlier test problems of a.jsonl (2864c512): 0.250 against the champion's 0.500 (95 %")
    assert line.endswith("of the difference): more than promotion.margin may be lost")
    assert hold_back(better(), [], 0.1) == better()


def test_a_set_that_is_too_small_to_rule_a_loss_out_holds_back_too() -> None:
    """No loss is seen: two of twelve were lost, two won."""
    ours, theirs = [1.0] * 8 + [0.0, 0.0, 1.0, 1.0], [1.0] * 10 + [0.0, 0.0]
    assert compared(ours, theirs).difference == 0
    assert compared(ours, theirs).lost
    assert not hold_back(better(), [compared(ours, theirs)], 0.1).worse
    assert not compared(ours * 40, theirs * 40).lost


def test_where_less_is_better_a_rise_is_a_loss() -> None:
    assert compared([0.5] * 40, [0.2] * 40, lower=True).lost
    assert not compared([0.2] * 40, [0.5] * 40, lower=True).lost


def test_a_loss_of_the_margin_passes_once_in_forty() -> None:
    """A policy that is worse by exactly the margin: 2.5 of 100 sets, and at most four standard deviations more."""
    chance, passed = Random(0), 0
    pairs = [*[(1.0, 1.0)] * 5, *[(0.0, 0.0)] * 3, *[(0.0, 1.0)] * 2]
    for seed in range(100):
        drawn = chance.choices(pairs, k=80)
        result = compare_kept(kept("v", "a"), [ours for ours, _ in drawn], [theirs for _, theirs in drawn], 0.2, seed)
        passed += not result.lost
    assert passed <= 2.5 + 4 * 2.5**0.5
