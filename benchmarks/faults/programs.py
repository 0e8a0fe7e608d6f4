"""Programs that poison others, and results that differ from run to run: the tables of tests/attacks, counted.

A program counts as poisoned if, next to an attack, it gives another answer than alone. Nondeterminism counts as not
detected if a program's recorded results differ between fresh sandboxes, in which the programs run in another order.
"""

import random
from collections import defaultdict

from tasks.programs.sandbox.sandbox import Program, Sandbox
from tests.attacks.chance_list import CHANCE
from tests.attacks.poison_list import INNOCENT, QUESTION, poisons

RUNS = 4


def measure() -> dict[str, float]:
    """`plain_programs_poisoned` and `undetected_nondeterminism`."""
    return {"plain_programs_poisoned": _poisoned(), "undetected_nondeterminism": _undetected()}


def _poisoned() -> int:
    """Plain programs with a wrong answer, of all that ran in one sandbox with the attacks."""
    innocents = [Program(code, (QUESTION,)) for code in INNOCENT]
    mixed = [program for code in poisons().values() for program in (Program(code, (QUESTION,)), *innocents)]
    with Sandbox(2.0, 256, allow_weak=False, workers=1) as sandbox:
        results = sandbox.run(mixed) + sandbox.run(innocents)
    answers = [
        (INNOCENT.get(program.code), result.value)
        for program, (result,) in zip(mixed + innocents, results, strict=True)
    ]
    return sum(expected is not None and value != expected for expected, value in answers)


def _undetected() -> int:
    """Programs whose results differ between runs."""
    found = defaultdict[str, set[str]](set)
    for seed in range(RUNS):
        names = random.Random(seed).sample(sorted(CHANCE), len(CHANCE))
        with Sandbox(5.0, 256, allow_weak=False, workers=1 + seed % 2) as sandbox:
            results = sandbox.run([Program(CHANCE[name], (QUESTION,)) for name in names])
        for name, (result,) in zip(names, results, strict=True):
            found[name].add(result.model_dump_json())
    return sum(len(results) > 1 for results in found.values())
