"""The hash tables are sets; fingerprints tell behaviours apart and nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.statement_search.behaviour_set import BehaviourSet, fingerprints

pytestmark = pytest.mark.nightly


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), max_size=300))
def test_a_table_is_a_set_for_each_problem(asked: list[tuple[int, int]]) -> None:
    seen, known = BehaviourSet(3, capacity=4), set()
    for problem, key in asked:
        new = seen.add(np.array([problem]), np.array([key << 5], dtype=np.uint64))  # colliding keys
        assert new.tolist() == [(problem, key) not in known]
        known.add((problem, key))


def test_many_problems_at_once() -> None:
    seen = BehaviourSet(50, capacity=2)
    for key in range(1, 100):
        assert seen.add(np.arange(50), np.full(50, key, dtype=np.uint64)).all()
    assert not seen.add(np.arange(50), np.full(50, 42, dtype=np.uint64)).any()


def test_equal_behaviour_has_one_fingerprint_and_one_input_is_not_enough() -> None:
    a, b, c = np.array([[3.0, 7.1], [4.0, 2.3], [12.0, 5.9]])
    same = fingerprints(np.stack([(a + b) * c, a * c + b * c, c * (b + a)]))
    assert len(set(same.tolist())) == 1
    other = fingerprints(np.array([[12.0, 7.1], [12.0, 7.2]]))  # equal on the first input only
    assert other[0] != other[1]
    assert fingerprints(np.array([[0.0]])) == fingerprints(np.array([[-0.0]]))
