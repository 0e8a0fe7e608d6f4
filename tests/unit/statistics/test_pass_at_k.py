"""pass@k by its definition, and the vote of k samples against all orders in which they can be drawn."""

from collections import Counter
from fractions import Fraction
from itertools import permutations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.pass_at_k import maj_at_k, pass_at_k


@st.composite
def right_counts(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 200))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(right_counts())
def test_pass_at_k_is_the_definition_in_integers(count: tuple[int, int, int]) -> None:
    n, c, k = count
    assert pass_at_k(n, c, k) == pytest.approx(float(1 - Fraction(comb(n - c, k), comb(n, k))), abs=1e-12)
    assert pass_at_k(n, c, 1) == pytest.approx(c / n, abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(5, 6, 1), (5, -1, 1), (5, 2, 0), (5, 2, 6), (0, 0, 1)])
def test_impossible_counts_of_pass_at_k_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(n, c, k)


def votes(drawn: tuple[str, ...]) -> bool:
    """Whether "right" wins: most votes, of several the first that was drawn."""
    counted = Counter(answer for answer in drawn if answer != "none")
    return bool(counted) and counted.most_common(1)[0][0] == "right"


@st.composite
def counts(draw: st.DrawFn, most: int) -> tuple[int, int, list[int]]:
    n = draw(st.integers(1, most))
    c = draw(st.integers(0, n))
    wrong: list[int] = []
    while (left := n - c - sum(wrong)) and draw(st.booleans()):
        wrong.append(draw(st.integers(1, left)))
    return n, c, wrong


@given(counts(6), st.data())
def test_maj_at_k_is_the_share_of_all_orders_in_which_the_right_answer_wins(
    count: tuple[int, int, list[int]], data: st.DataObject
) -> None:
    n, c, wrong = count
    k = data.draw(st.integers(1, n))
    samples = ["right"] * c + [f"wrong {i}" for i, many in enumerate(wrong) for _ in range(many)]
    orders = list(permutations(samples + ["none"] * (n - len(samples)), k))
    expected = sum(votes(order) for order in orders) / len(orders)
    assert maj_at_k(n, c, wrong, k) == pytest.approx(expected, abs=1e-12)


@given(counts(60))
def test_one_vote_is_the_share_of_right_samples_and_n_are_the_vote_itself(count: tuple[int, int, list[int]]) -> None:
    n, c, wrong = count
    assert maj_at_k(n, c, wrong, 1) == pytest.approx(c / n, abs=1e-12)
    most = max(wrong, default=0)
    vote = 1 / (1 + wrong.count(c)) if c and c >= most else 0.0
    assert maj_at_k(n, c, wrong, n) == pytest.approx(vote, abs=1e-12)


def test_impossible_counts_of_maj_at_k_are_refused() -> None:
    for c, wrong, k in [(6, [], 1), (-1, [], 1), (2, [4], 1), (2, [-1], 1), (2, [], 0), (2, [], 6)]:
        with pytest.raises(ValueError, match="maj@k needs"):
            maj_at_k(5, c, wrong, k)
