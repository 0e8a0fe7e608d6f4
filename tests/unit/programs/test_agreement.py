"""Agreement: the behaviour of most completions counts in full, a program that ignores its quantities counts nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.programs.agreement import agreement, behaviour_of, has_agreement, ignores_quantities
from tasks.records.programs import Result
from tasks.records.search import Workflow
from tests.support.records import make_workflow

OWN = 72


def ok(value: int | float | str) -> Result:
    return Result(status="ok", value=value)


def workflow(name: str, completions: int, *given: int | float | str | None) -> Workflow:
    """It returns OWN on the problem and these values with other quantities; None is an error."""
    perturbed = [Result(status="error", error="IndexError") if value is None else ok(value) for value in given]
    return make_workflow(
        name, workflow_id=name, visits=completions, prior=0.5, result=ok(OWN), perturbed_results=perturbed
    )


GIVEN = st.tuples(st.sampled_from([OWN, 5, 6.5, None, "9"]), st.sampled_from([OWN, 7, 8]))
POOLS = st.lists(st.tuples(st.integers(1, 5), GIVEN), max_size=7).map(
    lambda drawn: [workflow(f"w{place}", count, *given) for place, (count, given) in enumerate(drawn)]
)


@given(pool=POOLS)
def test_most_completions_count_in_full_and_others_by_their_share_of_that(pool: list[Workflow]) -> None:
    counts = agreement(pool)
    assert all(0 <= count <= 1 for count in counts)
    trusted = [w for w in pool if not ignores_quantities(w)]
    assert (1.0 in counts) == bool(trusted)
    votes = {behaviour_of(w): sum(o.visits for o in trusted if behaviour_of(o) == behaviour_of(w)) for w in trusted}
    for w, count in zip(pool, counts, strict=True):
        assert (count == 0) == ignores_quantities(w)
        if count:
            assert count * max(votes.values()) == pytest.approx(votes[behaviour_of(w)])


@given(pool=POOLS)
def test_duplicate_workflows_count_as_one_with_all_their_completions(pool: list[Workflow]) -> None:
    halves = [w.model_copy(update={"visits": visits}) for w in pool for visits in (2 * w.visits - 1, 1)]
    assert agreement(halves)[::2] == agreement(pool)
    assert has_agreement(halves) == has_agreement(pool), "one workflow does not agree with itself"


@pytest.mark.parametrize("given", [(OWN, OWN), (72.00000000000001, "72"), (None, None), (OWN, None), ("much", "more")])
def test_a_workflow_that_ignores_its_quantities_counts_nothing(given: tuple[int | float | str | None, ...]) -> None:
    pool = [workflow("constant", 9, *given), workflow("lone", 1, 5, 6)]
    assert agreement(pool) == [0, 1]
    assert not has_agreement([*pool, workflow("other constant", 1, *given)])


def test_without_perturbed_results_a_right_answer_counts_in_full() -> None:
    assert agreement([workflow("a", 1), workflow("b", 3)]) == [1, 1]
    assert not has_agreement([workflow("a", 1), workflow("b", 3)])
    assert agreement([]) == []


def test_values_are_the_same_as_answers_are() -> None:
    same = [(0.1 + 0.2, 7), (0.3, 7.0), ("0.30", "7"), (0.3 + 1e-12, 7 - 1e-12)]
    pool = [workflow(f"w{place}", 1, *given) for place, given in enumerate(same)]
    assert len({behaviour_of(w) for w in pool}) == 1
    apart = [(0.3, 7), (0.30001, 7), (0.3, 7.001), (0.3, None), (0.3, "seven"), (-0.3, 7)]
    assert len({behaviour_of(workflow("w", 1, *given)) for given in apart}) == len(apart)
    nearly_nothing = [workflow("w", 1, value, 1e12) for value in (0, 0.0, -0.0, 5e-17, -5e-17)]
    assert len({behaviour_of(w) for w in nearly_nothing}) == 1
    charges = [workflow("w", 1, value, 3e-19) for value in (1.6e-19, 1.7e-19, -1.6e-19, 0)]
    assert len({behaviour_of(w) for w in charges}) == 4


@given(st.decimals(0, 1000, places=2), st.decimals(0, 1000, places=2), st.decimals(0, 1000, places=2))
def test_the_order_of_operations_does_not_matter(a: object, b: object, c: object) -> None:
    x, y, z = float(str(a)), float(str(b)), float(str(c))
    one, other = workflow("one", 1, x * y * z, (x + y) * z), workflow("other", 1, z * (y * x), x * z + y * z)
    assert behaviour_of(one) == behaviour_of(other)
