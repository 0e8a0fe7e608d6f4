"""Generated one-line functions: a description, the line that computes it, and unit tests, shown and hidden ones."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from recipes.code.evaluator import UNIT_TESTS
from tasks.environments.word_problems.spread import cycle
from tasks.errors import GraftError
from tasks.records import Problem, Split
from tasks.seeds import derive_seed

SHOWN, HIDDEN = 1, 5
"""Unit tests of each function."""

ARGUMENTS = range(21)
CONSTANTS = range(2, 21)
TRIES = 1000


class Kind(NamedTuple):
    """A kind of function of x and the constants a and b: what the description says, and what the line returns."""

    name: str
    description: str
    line: str
    compute: Callable[[int, int, int], int]


KINDS = (
    Kind("times-plus", "x times {a}, plus {b}", "x * {a} + {b}", lambda x, a, b: x * a + b),
    Kind("times-minus", "x times {a}, minus {b}", "x * {a} - {b}", lambda x, a, b: x * a - b),
    Kind("plus-times", "x plus {a}, all times {b}", "(x + {a}) * {b}", lambda x, a, b: (x + a) * b),
    Kind("minus-times", "x minus {a}, all times {b}", "(x - {a}) * {b}", lambda x, a, b: (x - a) * b),
    Kind("square-plus", "the square of x times {a}, plus {b}", "x * x * {a} + {b}", lambda x, a, b: x * x * a + b),
    Kind("rest-plus", "the rest of x divided by {a}, plus {b}", "x % {a} + {b}", lambda x, a, b: x % a + b),
    Kind("part-plus", "x divided by {a} and rounded down, plus {b}", "x // {a} + {b}", lambda x, a, b: x // a + b),
    Kind("from-times", "{a} minus x, all times {b}", "({a} - x) * {b}", lambda x, a, b: (a - x) * b),
)


def generate_functions(sizes: dict[Split, int], seed: int) -> dict[Split, list[Problem]]:
    """`sizes` problems of each split, in this order; no question occurs twice.

    Raises GraftError if there are not as many different functions.
    """
    used: set[str] = set()
    problems: dict[Split, list[Problem]] = {}
    for split, size in sizes.items():
        kinds = cycle(KINDS, size, seed, split, "functions")
        problems[split] = [_problem(kinds.pop(), split, index, seed, used) for index in range(size)]
    return problems


def _problem(kind: Kind, split: Split, index: int, seed: int, used: set[str]) -> Problem:
    rng = random.Random(derive_seed(seed, "problems", "functions", split, index))
    for _ in range(TRIES):
        a, b = rng.choice(CONSTANTS), rng.choice(CONSTANTS)
        description = kind.description.format(a=a, b=b)
        if description not in used:
            used.add(description)
            break
    else:
        raise GraftError(
            f"problems: no further function of the kind {kind.name} after {TRIES} tries; set problems.train, "
            f"validation, test and dev to at most {len(KINDS) * len(CONSTANTS) ** 2 // 2} together"
        )
    arguments = rng.sample(ARGUMENTS, SHOWN + HIDDEN)
    tests = [f"assert f({x}) == {kind.compute(x, a, b)}" for x in arguments]
    answer: dict[str, Any] = {
        "entry_point": "f",
        "prompt": "",
        "setup": "",
        "shown": tests[:SHOWN],
        "hidden": tests[SHOWN:],
        "solution": f"def f(x): return {kind.line.format(a=a, b=b)}\n",
    }
    return Problem(
        problem_id=f"{split}-{index:04d}-{kind.name}",
        evaluator=UNIT_TESTS,
        question="\n".join([f"f(x): {description}", *tests[:SHOWN]]),
        answer=answer,
        source="generated",
        template=kind.name,
        seen=True,
    )
