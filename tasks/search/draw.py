"""Random draw of a round's problems."""

from collections.abc import Sequence

from tasks.records import Problem, Split
from tasks.search.policy_search import SplitProblem
from tasks.seeds import derive_seed


def draw_problems(
    problems: Sequence[Problem], count: int | None, seed: int, split: Split, round: int
) -> list[SplitProblem]:
    """A random sample of `count` problems for the round, in their order; all if there are fewer, or for None."""
    drawn = sorted(problems, key=lambda problem: derive_seed(seed, split, round, problem.problem_id))
    chosen = {problem.problem_id for problem in drawn[:count]}
    return [(split, problem) for problem in problems if problem.problem_id in chosen]
