"""Share of tricky cases that the evaluators of answers score right, by evaluator, and the time of a score.

    python -m benchmarks.evaluators

Prints a table and every case that is wrong, then one JSON object as the last line of standard output.
"""

import json
from collections.abc import Iterable, Sequence
from math import isclose
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.support.evaluator_cases import CASES
from tasks.evaluators.number import Value
from tasks.evaluators.scores import BUILT_IN, score
from tasks.records import Answer, Problem


class CaseScore(NamedTuple):
    """A case with the score that it got, and the seconds that took."""

    evaluator: str
    value: Value
    answer: Answer
    expected: float
    given: float
    seconds: float

    @property
    def is_right(self) -> bool:
        return isclose(self.given, self.expected)


def score_cases(cases: Iterable[tuple[str, Value, Answer, float]] = CASES) -> list[CaseScore]:
    """Every case as a problem of a file, scored as a stage scores it."""
    results = []
    for name, value, answer, expected in cases:
        parsed = BUILT_IN[name].parse(answer)
        problem = Problem(problem_id="p", question="?", answer=parsed, source="case", evaluator=name)
        started = perf_counter()
        given = score(problem, value)
        results.append(CaseScore(name, value, answer, expected, given, perf_counter() - started))
    return results


def report(results: Sequence[CaseScore]) -> None:
    """Print the table, the wrong cases, and the share of right ones as JSON."""
    print(f"{'evaluator':<12} {'cases':>6} {'right':>6} {'median ms':>10}")
    for name in dict.fromkeys(each.evaluator for each in results):
        own = [each for each in results if each.evaluator == name]
        right, milliseconds = sum(each.is_right for each in own), 1000 * median(each.seconds for each in own)
        print(f"{name:<12} {len(own):>6} {right:>6} {milliseconds:>10.3f}")
    for each in results:
        if not each.is_right:
            print(f"wrong: {each.evaluator}: {each.value!r} for {each.answer!r}: {each.given:g}, not {each.expected:g}")
    share = sum(each.is_right for each in results) / len(results)
    print(json.dumps({"evaluator_cases": len(results), "evaluator_cases_right_share": share}))


if __name__ == "__main__":
    report(score_cases())
