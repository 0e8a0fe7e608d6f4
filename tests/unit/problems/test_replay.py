"""Replay: earlier problems take a share of tonight's train problems, and the pool is a uniform sample of them."""

from collections import Counter
from random import Random

import pytest

from tasks.problems.replay import pool_after, with_replay
from tasks.records.problems import Problem


def problems(source: str, first: int, count: int, sha256: str | None = None) -> list[Problem]:
    """Their ids are those of other sources' problems, too."""
    return [
        Problem(
            problem_id=f"p{number}", question=f"{source} {number}?", answer=1, source=source, evaluator_sha256=sha256
        )
        for number in range(first, first + count)
    ]


@pytest.mark.parametrize(("share", "replayed"), [(0.0, 0), (0.25, 10), (0.9, 20)])
def test_a_share_of_the_train_problems_is_of_the_pool_as_far_as_that_goes(share: float, replayed: int) -> None:
    train, pool = problems("b", 0, 40), problems("a", 0, 20)
    mixed = with_replay(train, pool, train, share, seed=0)
    assert mixed[: 40 - replayed] == train[: 40 - replayed]
    assert len({problem.problem_id for problem in mixed}) == len(mixed) == 40
    assert {problem.question for problem in mixed[40 - replayed :]} <= {problem.question for problem in pool}
    assert mixed == with_replay(train, pool[::-1], train, share, seed=0)


def test_neither_what_is_asked_tonight_nor_what_no_evaluator_reads_any_more_is_replayed() -> None:
    train, pool = problems("b", 0, 10), [*problems("a", 0, 5), *problems("a", 5, 5, "old"), *problems("c", 0, 5)]
    mixed = with_replay(train, pool, [*train, *problems("C", 0, 5)], 0.9, seed=0)
    assert Counter(problem.source for problem in mixed) == {"b": 5, "a": 5}
    assert all(problem.evaluator_sha256 is None for problem in mixed)


def test_over_the_nights_every_problem_is_as_likely_in_the_pool() -> None:
    """After nights of 40 problems of sources that alternate, each source has its share: to four standard deviations."""
    counts = Counter[str]()
    for seed in range(30):
        pool: list[Problem] = []
        for night in range(8):
            train = Random(night).sample(problems("ab"[night % 2], 20 * night, 60), 40)
            pool = pool_after(pool, train, seed)
            assert len(pool) == 40
        counts.update(problem.source for problem in pool)
    assert abs(counts["a"] - counts["b"]) < 4 * (30 * 40) ** 0.5
