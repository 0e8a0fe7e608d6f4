"""The problems of a round: a random draw, of all or of the easiest ones."""

from collections.abc import Sequence

from tasks.errors import GraftError
from tasks.params.sections import Search
from tasks.records.problems import Problem, Split
from tasks.search.policy_search import SplitProblem
from tasks.seeds import derive_seed


def draw_problems(
    problems: Sequence[Problem], count: int | None, seed: int, split: Split, round: int
) -> list[SplitProblem]:
    """A random sample of `count` problems for the round, in their order; all if there are fewer, or for None."""
    drawn = sorted(problems, key=lambda problem: derive_seed(seed, split, round, problem.problem_id))
    chosen = {problem.problem_id for problem in drawn[:count]}
    return [(split, problem) for problem in problems if problem.problem_id in chosen]


def draw_train_problems(problems: Sequence[Problem], search: Search, seed: int, round: int) -> list[SplitProblem]:
    """The train problems that a round searches, by `search.order` and `search.problems`."""
    if search.order == "easiest_first":
        problems = easiest_problems(problems, search.problems, round)
    return draw_problems(problems, search.problems, seed, "train", round)


QUARTERS = 4
"""Rounds until all problems are open; independent of `rounds.last`, so that more rounds leave the first ones valid."""


def easiest_problems(problems: Sequence[Problem], count: int | None, round: int) -> list[Problem]:
    """The `round` quarters of the problems with the fewest operations, at least `count` of them, in their order.

    The curriculum of simpler problems first (Bengio et al. 2009, "Curriculum learning"). Raises GraftError where a
    problem does not say how many operations it takes.
    """
    unknown = next((problem.problem_id for problem in problems if problem.operations is None), None)
    if unknown is not None:
        raise GraftError(
            f"search.order: easiest_first, but problem {unknown} does not say how many operations it takes, as those "
            "of the environment do; set it to all"
        )
    size = max(count or 0, -(-len(problems) * round // QUARTERS))
    easiest = sorted(problems, key=lambda problem: problem.operations or 0)[:size]
    chosen = {problem.problem_id for problem in easiest}
    return [problem for problem in problems if problem.problem_id in chosen]
