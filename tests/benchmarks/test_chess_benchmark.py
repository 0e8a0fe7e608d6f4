"""The figures of benchmarks.chess."""

import pytest

from benchmarks.chess.__main__ import canonical_reward_share, figures, lines
from benchmarks.learning import LearningRun
from tasks.records import Problem
from tests.recipes.chess.conftest import writer, written

pytestmark = pytest.mark.nightly

P = ("p_legal", "p_best_move")


def run(best: float, exact: float | None, seconds: float) -> LearningRun:
    """From 0.1 best moves, 0.3 legal ones and 0.2 exact."""
    before = {"p_best_move": 0.1, "p_legal": 0.3, **({} if exact is None else {"a_exact": 0.2})}
    after = {"p_best_move": best, "p_legal": 0.5, **({} if exact is None else {"a_exact": exact})}
    named = [
        {f"measure/{k}/{kind}": v for k, v in w.items() for kind in ("greedy", "sampled")} for w in (before, after)
    ]
    return LearningRun(named[0], named[1], seconds)


def test_gains_are_of_means_and_the_ratio_too() -> None:
    assert figures([run(0.2, 0.3, 60.0), run(0.3, 0.4, 600.0), run(0.4, 0.5, 120.0)]) == {
        "best_move_ratio": 3.0, "legal_gain": 0.2, "greedy_best_gain": 0.2, "exact_gain": 0.2, "greedy_exact_gain": 0.2,
        "minutes": 2.0,
    }  # fmt: skip
    assert set(figures([run(0.2, None, 60.0)])) == {"best_move_ratio", "legal_gain", "greedy_best_gain", "minutes"}
    assert lines({0: run(0.2, None, 60.0)})[0].split() == ["p_legal/sampled", "0.300", "→", "0.500"]


def test_the_share_counts_problems_whose_completion_earns_all() -> None:
    problems = written(writer())["test"]
    weights = {"best": 0.5, "candidates": 0.3, "evaluations": 0.2, "format": 0.1, "content": 0.9}
    assert canonical_reward_share(problems, weights) == 1
    broken: list[Problem] = [problems[0].model_copy(update={"answer": "M: a1a1 E: 0.0 B: a1a1"}), *problems[1:]]
    assert canonical_reward_share(broken, weights) == pytest.approx(1 - 1 / len(problems))
