"""The probability of a wrong key follows the votes: each law in its simplest instance."""

import random
from dataclasses import dataclass

import pytest

from tasks.statistics.wrong_key import Votes, wrong_key_probabilities

RIGHT = [Votes(samples=32, key=24, rival=4)] * 20
"""Questions that the policy mostly solves."""


def chance(votes: Votes, others: list[Votes] = RIGHT) -> float:
    return wrong_key_probabilities([votes, *others])[0]


def test_a_key_that_completions_confirm_is_right_and_one_that_all_contradict_is_wrong() -> None:
    assert chance(Votes(samples=32, key=30, rival=1)) < 0.01
    assert chance(Votes(samples=32, key=0, rival=30)) > 0.5
    assert chance(Votes(samples=32, key=0, rival=18, confirmed_rival=18, has_siblings=True)) > 0.9


def test_more_votes_against_the_key_raise_it_and_votes_for_it_lower_it() -> None:
    rising = [chance(Votes(samples=32, key=1, rival=rival)) for rival in range(0, 32, 4)]
    assert rising == sorted(rising)
    falling = [chance(Votes(samples=32, key=key, rival=8)) for key in range(0, 24, 4)]
    assert falling == sorted(falling, reverse=True)


def test_the_same_answers_of_a_weak_policy_say_less() -> None:
    doubtful = Votes(samples=32, key=0, rival=20)
    weak = [Votes(samples=32, key=2, rival=12)] * 20
    assert chance(doubtful, weak) < chance(doubtful)


def test_what_solves_no_sibling_says_less_than_where_there_is_none() -> None:
    alone = Votes(samples=32, key=0, rival=20)
    assert chance(alone._replace(has_siblings=True)) < chance(alone)


def test_of_no_question_there_is_none() -> None:
    assert wrong_key_probabilities([]) == []


@dataclass
class Simulated:
    votes: list[Votes]
    wrong: list[bool]


def simulate(seed: int, share: float) -> Simulated:
    """Lines of a file without siblings; sixteen completions each, whose mistakes are spread over four answers."""
    luck, found = random.Random(seed), Simulated([], [])
    for _ in range(1500):
        ability, is_wrong = luck.betavariate(2, 1), luck.random() < share
        answers = [0 if luck.random() < ability else luck.randint(1, 4) for _ in range(16)]
        key = 9 if is_wrong else 0
        counts = [answers.count(answer) for answer in range(5) if answer != key]
        found.votes.append(Votes(samples=16, key=answers.count(key), rival=max(counts)))
        found.wrong.append(is_wrong)
    return found


@pytest.mark.parametrize("share", [0.02, 0.05])
def test_it_is_about_as_often_wrong_as_it_says(share: float) -> None:
    """Within five hundredths in each tenth, weighted by its size."""
    project = simulate(7, share)
    found = list(zip(wrong_key_probabilities(project.votes), project.wrong, strict=True))
    bins = [[(p, wrong) for p, wrong in found if int(p * 10) == place] for place in range(10)]
    error = sum(abs(sum(p - wrong for p, wrong in own)) for own in bins) / len(found)
    assert error < 0.05
    ordered = [wrong for _, wrong in sorted(found, reverse=True)]
    assert sum(ordered[:20]) >= 18
