"""The table of templates against counts by hand, and read back as DVC reads it."""

import csv
import random

import pytest

from tasks.evaluate.by_template import TemplateRow, by_template, csv_table
from tasks.records.evaluation import ProblemOutcome
from tests.support.records import make_outcome


def outcome(template: str | None, correct: int, greedy: bool, seen: bool = True, operations: int = 2) -> ProblemOutcome:
    fields = {"template": template, "seen": seen, "greedy": greedy, "correct": correct, "operations": operations}
    return make_outcome(f"{template}-{correct}", samples=10, **fields)


OUTCOMES = [
    outcome("eggs", 4, True), outcome("eggs", 6, False), outcome("new, by far", 0, False, seen=False, operations=3),
    outcome("fence", 1, False, operations=4), outcome("boxes", 1, True), outcome(None, 10, True),
]  # fmt: skip


def test_a_row_has_the_means_over_its_problems_and_the_worst_is_first() -> None:
    rows = by_template(OUTCOMES)
    assert [row.template for row in rows] == ["new, by far", "fence", "boxes", "eggs"]
    assert rows[-1] == TemplateRow("eggs", 2, True, 2, 0.5, pytest.approx(0.5))
    assert rows[0] == TemplateRow("new, by far", 3, False, 1, 0.0, 0.0)
    assert sum(row.problems for row in rows) == 5
    shuffled = random.Random(0).sample(OUTCOMES, len(OUTCOMES))
    assert csv_table(by_template(shuffled)) == csv_table(rows)


def test_the_table_is_read_back() -> None:
    lines = csv_table(by_template(OUTCOMES)).splitlines()
    assert lines[0] == "template,operations,seen,problems,greedy,sampled"
    rows = list(csv.DictReader(lines))
    assert [row["template"] for row in rows] == ["new, by far", "fence", "boxes", "eggs"]
    assert list(rows[-1].values()) == ["eggs", "2", "True", "2", "0.5", "0.5"]  # the keys are the head's
    assert csv_table([]) == "template,operations,seen,problems,greedy,sampled\n"
