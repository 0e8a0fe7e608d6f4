"""The problems of benchmarks.presets: sums that are right, and never asked twice."""

import re
from pathlib import Path

import pytest

from benchmarks.learning import LearningRun
from benchmarks.presets import figures, table
from benchmarks.support.sums import write_sums
from tasks.problems.jsonl import read_problems

pytestmark = pytest.mark.nightly


def test_each_answer_is_right_and_no_question_is_asked_twice(tmp_path: Path) -> None:
    write_sums(tmp_path / "sums.jsonl", 60, siblings=3, seed=0)
    problems = read_problems("sums.jsonl", (tmp_path / "sums.jsonl").read_text(), "sums.jsonl")
    asked = [pair for problem in problems for pair in zip(problem.questions, problem.answers, strict=True)]
    assert len({question for question, _ in asked}) == len(asked) == 240
    for question, answer in asked:
        first, *others = map(int, re.findall(r"\d+", question))
        signs = [1 if word == "buys" else -1 for word in re.findall(r"buys|gives", question)]
        assert answer == first + sum(sign * other for sign, other in zip(signs, others, strict=True)) > 0


def test_a_row_has_the_means_of_the_seeds() -> None:
    names = ("pass_at_1_greedy", "sampled_mean", "pass_at_5")
    runs = [LearningRun(dict.fromkeys(names, 0.25), dict.fromkeys(names, after), 60.0) for after in (0.5, 0.125)]
    numbers = figures(runs)
    assert (numbers["greedy_before"], numbers["greedy_after"], numbers["greedy_gain_worst"]) == (0.25, 0.3125, -0.125)
    assert table({("small", "answer"): runs, ("improved", "answer"): runs}).row_count == 2
