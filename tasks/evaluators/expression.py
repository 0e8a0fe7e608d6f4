"""Evaluator `expression`: equal mathematical expressions, parsed by math-verify's grammar in a child process.

    expression.py ── key and value ──► expression_worker.py ── expression_reader.py ──► expression_equality.py
                                                                  notation.py

sympy, which computes, never ends on `9^{9^{9^9}}`: a comparison that takes longer than SECONDS, or more memory than the
child has, counts as wrong. So a result may depend on the machine where a comparison takes that long.
"""

import atexit
import os
import subprocess
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock

from tasks.core.child_process import JsonProcess
from tasks.errors import GraftError
from tasks.evaluators.number import Value, number_or_text
from tasks.evaluators.text import accepted, last_box, parse_accepted, text_of
from tasks.records.problems import Answer

SECONDS = 5.0
"""Time limit of one comparison."""

LOADING = 120.0
"""Time limit for the import of math-verify, in seconds: a busy machine reads sympy slowly."""

LONGEST = 1000
"""Longest expression in characters; a longer value is wrong."""


def parse(answer: Answer) -> Answer:
    r"""The expression of an answer: the last `\boxed{}` of a text, the text itself, or a number; or a list of these.

    Raises ValueError for anything else.
    """
    return parse_accepted(answer, _expression)


def score(value: Value, answer: Answer) -> float:
    """1 if the value and an accepted answer are the same expression, else 0. Raises GraftError without math-verify."""
    predicted = _inside(text_of(value))
    return float(any(are_equal(predicted, expected) for expected in accepted(answer)))


@lru_cache(10_000)
def are_equal(predicted: str, expected: str) -> bool:
    """True if two LaTeX or plain expressions are the same text or equal."""
    if predicted == expected:
        return True
    return 0 < len(predicted) <= LONGEST and _CHILD.compare(predicted, expected)


def has_value(text: str) -> bool:
    """False for an answer that is not read as an expression: it equals the same words alone.

    Raises GraftError without math-verify.
    """
    return _CHILD.has_value(text)


class Comparer:
    """A child process that reads and compares expressions; the first comparison starts it, or the next after a kill."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child: JsonProcess | None = None
        self._owner = 0  # the process that started it: a fork of that must not share its pipes
        self._lock = Lock()

    def compare(self, predicted: str, expected: str) -> bool:
        """The child's verdict; False without one within the limits. Raises GraftError where it cannot start."""
        return self._is_true([expected, predicted])

    def has_value(self, text: str) -> bool:
        """Whether the child reads it as an expression; like `compare`."""
        return self._is_true([text])

    def _is_true(self, message: list[str]) -> bool:
        with self._lock:
            if self._child is None or self._owner != os.getpid() or not self._child.send(message):
                self._child = self._started()
                self._child.send(message)
            return _answer(self._child, self._seconds) is True

    def close(self) -> None:
        """End the child process, if this process started one."""
        if self._child is not None and self._owner == os.getpid():
            self._child.kill()

    def _started(self) -> JsonProcess:
        if find_spec("math_verify") is None:
            raise GraftError("problems.evaluator: expression needs math-verify; run: pip install 'graft[math]'")
        self.close()
        self._owner = os.getpid()
        child = JsonProcess("tasks.evaluators.expression_worker", stderr=subprocess.DEVNULL)
        if _answer(child, LOADING) != "ready":
            raise GraftError("problems.evaluator: math-verify could not be loaded; run: python -c 'import math_verify'")
        return child


def _answer(child: JsonProcess, seconds: float) -> object:
    """The child's next answer; None if it ended or is late, and then it is killed."""
    try:
        return child.receive(seconds)
    except (TimeoutError, EOFError, ValueError):
        return None


_CHILD = Comparer()
atexit.register(_CHILD.close)


def _expression(answer: Answer) -> str:
    text = _inside(text_of(number_or_text(answer, "an expression")))
    if not text:
        raise ValueError("empty; write the expression")
    return text


def _inside(text: str) -> str:
    box = last_box(text)
    return (text if box is None else box).strip()
