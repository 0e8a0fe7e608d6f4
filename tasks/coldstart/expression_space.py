"""Space of straight-line arithmetic programs over the quantities of a question.

A program is a sequence of statements `value = operand symbol operand` and returns the last value. Operand `t` below
STATEMENTS is the value of statement `t`; operand `STATEMENTS + i` is leaf `i`: first the quantities that `numbers`
reads from the question, from left to right, then constants. The numbering depends on the problem only, so that a batch
of problems can share arrays.
"""

import operator
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.programs.operators.builtin import numbers
from tasks.seeds import derive_seed

APPLY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
"""Symbol → operation, on numbers as on arrays."""

SYMBOLS = "".join(APPLY)
STATEMENTS = 6
"""Longest program."""

QUANTITIES = 14
"""Most quantities of a question; further ones are ignored."""

LEAVES = 18
"""Most quantities and constants of a question, the quantities first."""

LARGEST = 1e9
PERTURBATIONS = 2
"""Random inputs, in addition to the real ones, on which equivalent programs agree."""

CONSTANTS = (1.0, 2.0, 100.0)
CUES: dict[str, tuple[float, ...]] = {
    "hour": (60.0,),
    "minute": (60.0,),
    "second": (60.0,),
    "day": (7.0, 24.0),
    "daily": (7.0,),
    "week": (7.0, 52.0),
    "weekly": (7.0, 52.0),
    "weekday": (5.0,),
    "month": (12.0, 4.0, 30.0),
    "monthly": (12.0,),
    "year": (12.0, 52.0, 365.0),
    "annual": (12.0,),
    "annually": (12.0,),
    "yearly": (12.0,),
    "april": (30.0,),
    "june": (30.0,),
    "september": (30.0,),
    "november": (30.0,),
    "decade": (10.0,),
    "century": (10.0,),
    "foot": (12.0, 3.0),
    "feet": (12.0, 3.0),
    "inch": (12.0,),
    "inches": (12.0,),
    "yard": (3.0,),
    "pound": (16.0,),
    "ounce": (16.0,),
    "gallon": (4.0,),
    "quarter": (25.0, 4.0),
    "dime": (10.0,),
    "nickel": (5.0,),
    "kilometer": (1000.0,),
    "kilogram": (1000.0,),
    "kg": (1000.0,),
    "meter": (1000.0,),
    "liter": (1000.0,),
    "ml": (1000.0,),
    "tripled": (3.0,),
    "triplet": (3.0,),
    "quadruple": (4.0,),
    "quadruplets": (4.0,),
    "square": (4.0,),
    "average": (3.0,),
    "third": (3.0,),
    "thirds": (3.0,),
}
"""Words that imply constants."""

Array = NDArray[np.float64]
Program = tuple[tuple[str, int, int], ...]
"""(symbol, left operand, right operand) for each statement."""


@dataclass(frozen=True)
class Space:
    """The leaves of a problem. `inputs` [I, L]: value of each leaf on the real inputs, then on the random ones."""

    problem_id: str
    question: str
    inputs: Array
    answers: Array  # [R]: of the real inputs, which are the first R rows
    quantities: int  # number of leading leaves that are quantities; the others are constants

    @property
    def leaves(self) -> int:
        return int(self.inputs.shape[1])

    @property
    def texts(self) -> list[str]:
        """The code of each leaf."""
        constants = [f"{value:g}" for value in self.inputs[0, self.quantities :].tolist()]
        return [f"n[{i}]" for i in range(self.quantities)] + constants


def space_of(problem_id: str, questions: Sequence[str], answers: Sequence[float]) -> Space:
    """The space of a problem; `questions` and `answers` [R]: its own, then its siblings'."""
    read = [[float(number) for number in numbers(question)] for question in questions]
    count = min(min(map(len, read)), QUANTITIES)
    constants = constants_of(questions[0])[: LEAVES - count]
    inputs = [*(row[:count] for row in read), *other_inputs(problem_id, read[0][:count])]
    rows = [row + list(constants) for row in inputs]
    return Space(problem_id, questions[0], np.array(rows), np.array([float(a) for a in answers]), count)


def other_inputs(problem_id: str, quantities: Sequence[float]) -> list[list[float]]:
    """[PERTURBATIONS, Q]: randomly scaled quantities of a problem, without known answers."""
    rng = random.Random(derive_seed("search", "perturbations", problem_id))
    return [[value * rng.uniform(0.6, 1.7) for value in quantities] for _ in range(PERTURBATIONS)]


def constants_of(question: str) -> tuple[float, ...]:
    """1, 2 and 100, and the constants implied by words of the question, in a fixed order."""
    words = re.findall("[a-z]+", question.lower())
    found = {constant for word in words for form in (word, word.removesuffix("s")) for constant in CUES.get(form, ())}
    return CONSTANTS + tuple(sorted(found - set(CONSTANTS)))
