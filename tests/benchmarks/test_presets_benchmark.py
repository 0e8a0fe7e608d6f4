"""The problems of benchmarks.presets: sums that are right, and never asked twice."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.presets import table
from benchmarks.sums import write_sums
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


def test_problems_without_those_of_another_file_share_none(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    write_sums(first, 300, siblings=3, seed=0)
    write_sums(second, 300, siblings=3, seed=1, without=first)
    questions = [
        {each["question"] for line in file.read_text().splitlines() for each in _all(json.loads(line))}
        for file in (first, second)
    ]
    assert not questions[0] & questions[1]


def _all(problem: dict[str, object]) -> list[dict[str, object]]:
    return [problem, *problem["siblings"]]  # type: ignore[misc]


def test_the_table_has_a_row_for_each_preset() -> None:
    names = ("greedy", "sampled")
    numbers = {f"{name}_{when}": 0.5 for name in names for when in ("before", "after")}
    numbers |= {"pass_at_5_after": 0.7, "hard_format_first": 0.4, "hard_format_mean": 0.5}
    numbers |= {"mark_first": 0.4, "mark_mean": 0.5}
    assert table({"small": numbers, "improved": numbers}).row_count == 2
