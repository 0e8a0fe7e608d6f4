"""Which round is the best and whether rounds still move pass@1, from counts of right samples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluate.best_round import best_standing, choice_reason, is_measured, plateau_remarks
from tasks.records.evaluation import Standing


def standing(round: int, correct: list[int], samples: int = 10) -> Standing:
    return Standing(round=round, version=f"v{round}", policy_sha256=f"d{round}", samples=samples, correct=correct)


@pytest.mark.parametrize(("last", "every", "rounds"), [
    (6, 0, []), (6, 1, [1, 2, 3, 4, 5, 6]), (6, 2, [2, 4, 6]), (6, 4, [4, 6]), (5, 2, [2, 4, 5]), (2, 9, [2]),
])  # fmt: skip
def test_every_nth_round_and_the_last_are_measured(last: int, every: int, rounds: list[int]) -> None:
    assert [n for n in range(1, last + 1) if is_measured(n, last, every)] == rounds


@given(st.lists(st.lists(st.integers(0, 10), min_size=7, max_size=7), min_size=1, max_size=8), st.randoms())
def test_the_best_round_is_the_first_with_the_highest_pass_at_1(counts: list[list[int]], order: object) -> None:
    standings = [standing(round, own) for round, own in enumerate(counts, start=1)]
    found = best_standing(standings)
    assert found.pass_at_1 == max(s.pass_at_1 for s in standings)
    assert all(sum(s.correct) < sum(found.correct) for s in standings if s.round < found.round)
    order.shuffle(standings)  # type: ignore[attr-defined]
    assert best_standing(standings) == found
    equal = [standing(1, [1, 2, 7], 30), standing(2, [3, 3, 4], 30)]  # means of floats would differ in the last digit
    assert best_standing(equal).round == 1


def level(share: float, seed: int = 0) -> list[int]:
    """Right samples of 60 problems of every difficulty, about this share of all."""
    return [min(max(round(10 * (share + ((i * 7 + seed) % 60 - 29.5) / 60)), 0), 10) for i in range(60)]


STEADY, HIGHER, BIT = level(0.5), level(0.7), [*level(0.5)[:-1], 5]
WITHIN_CHANCE = [count + (1 if i % 2 else -1) * (0 < count < 10) for i, count in enumerate(STEADY)]


@pytest.mark.parametrize(("counts", "since"), [
    ({1: STEADY, 2: STEADY, 3: STEADY}, None),  # too few
    ({1: STEADY, 2: STEADY, 3: STEADY, 4: STEADY}, 1), ({1: STEADY, 2: WITHIN_CHANCE, 3: BIT, 4: STEADY}, 1),
    ({1: HIGHER, 2: STEADY, 3: WITHIN_CHANCE, 4: STEADY, 5: BIT}, 2),
    ({1: STEADY, 2: STEADY, 3: STEADY, 4: HIGHER}, None),  # rises
    ({1: HIGHER, 2: HIGHER, 3: HIGHER, 4: STEADY}, None),  # falls: moves, too
    ({1: STEADY, 2: HIGHER, 3: STEADY, 4: STEADY}, None),  # comes back
    ({2: STEADY, 4: STEADY, 6: STEADY}, 2),  # three rounds before 6 is 3, and 2 the last that was measured by then
    ({3: STEADY, 6: STEADY}, 3), ({4: STEADY, 6: STEADY}, None), ({6: STEADY}, None), ({}, None),
])  # fmt: skip
def test_a_plateau_of_three_rounds_is_remarked_on(counts: dict[int, list[int]], since: int | None) -> None:
    remarks = plateau_remarks([standing(round, own) for round, own in counts.items()], seed=0)
    assert len(remarks) == (since is not None)
    for remark in remarks:
        assert remark.startswith(f"pass@1 on dev has not moved since round {since} (0.")
        assert remark.count("0.") == sum(round >= (since or 0) for round in counts)


def test_the_reason_names_the_rounds_compared() -> None:
    three = [standing(1, STEADY), standing(2, HIGHER), standing(3, WITHIN_CHANCE)]
    best = "has the highest pass@1 on 60 dev problems: 0.680"
    of_three = f"round 2 {best}, against 0.500 of the last (95 % interval of the "
    assert choice_reason(three[1], three, 3, 0).startswith(of_three)
    assert choice_reason(three[1], three[:2], 2, 0) == f"round 2, the last, {best}"
    only = "round 2, the last, is the only one that was measured: pass@1 0.680 on dev"
    assert choice_reason(three[1], three[1:2], 2, 0) == only
