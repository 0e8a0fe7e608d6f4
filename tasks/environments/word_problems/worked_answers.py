"""Base class of environments that answer word problems in worked steps: `12 * 4 = 48`.

A policy from scratch learns the steps of the workflows that cold-start search finds, with one binary operation per
statement. They are interpreted from the syntax tree, not run.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from tasks.environments.direct import Direct
from tasks.environments.prompts import select_examples
from tasks.environments.protocol import Solved
from tasks.environments.word_problems.template import OPERATIONS
from tasks.environments.word_problems.word_problems import WordProblems
from tasks.programs.operators.builtin import numbers
from tasks.records.problems import Problem

CALCULATOR = re.compile(r"<<[^<>\n]*>>")
"""`<<48/2=24>>` in GSM8K's solutions."""


class WorkedAnswers(WordProblems, Direct):
    """One completion, one answer to a word problem. A subclass defines `prompt` and `parse`."""

    def written(self, steps: Sequence[str], answer: str) -> str:
        """Training text for a policy from scratch: these steps and the answer."""
        return "\n".join([*steps, answer])

    def demonstrations(self, solved: Sequence[Solved], seed: int) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """The solutions worked out on the problems and on their siblings: arithmetic takes many examples."""
        for problem, code in solved:
            for question in problem.questions:
                yield question, self.written(*worked_steps(code, question))

    def worked_solution(self, problem: Problem) -> str | None:
        """The text of a file as steps, without the marks of GSM8K's calculator; its answer after ####, or the key."""
        if problem.worked_solution is None:
            return None
        steps, mark, answer = CALCULATOR.sub("", problem.worked_solution).rpartition("####")
        return self.written((steps if mark else answer).strip().split("\n"), answer.strip() if mark else _key(problem))

    def worked_examples(self, solved: Sequence[Solved], count: int, seed: int) -> list[tuple[str, str]]:  # noqa: ARG002
        """Solutions that differ, worked out."""
        return select_examples(solved, count, lambda code, question: self.written(*worked_steps(code, question)))


def worked_steps(code: str, question: str) -> tuple[list[str], str]:
    """(steps, answer): each statement with its values, and the returned value, as text.

    Raises ValueError for any other code and for a division by 0.
    """
    quantities = [Fraction(str(number)) for number in numbers(question)]
    variables: dict[str, Fraction] = {}
    steps: list[str] = []
    for statement in _body(code):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=left, op=op, right=right)):
                first, second = (_value(side, quantities, variables) for side in (left, right))
                try:
                    symbol, compute = OPERATIONS[type(op)]
                    variables[name] = compute(first, second)
                except (KeyError, ZeroDivisionError):
                    raise ValueError("divides by 0, or is no step") from None
                operation = f"{format_number(first)} {symbol} {format_number(second)}"
                steps.append(f"{operation} = {format_number(variables[name])}")
            case ast.Return(value=ast.expr() as value):
                return steps, format_number(_value(value, quantities, variables))
            case _:
                raise ValueError(f"no step: {ast.unparse(statement)}")
    raise ValueError("returns nothing")


def format_number(value: Fraction) -> str:
    """`48`, `0.25`; rounded to at most six decimals."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.6f}".rstrip("0").rstrip(".")


def _key(problem: Problem) -> str:
    """The expected answer as text: the first of several accepted ones."""
    answer = problem.answer[0] if isinstance(problem.answer, list) and problem.answer else problem.answer
    return format_number(Fraction(str(answer))) if problem.numbers else str(answer)


def _body(code: str) -> list[ast.stmt]:
    """The statements of `solve` after the first, which reads the quantities."""
    match ast.parse(code).body:
        case [ast.FunctionDef(body=[_, *statements])]:
            return statements
    raise ValueError("not one function with a body")


def _value(operand: ast.expr, quantities: list[Fraction], variables: dict[str, Fraction]) -> Fraction:
    match operand:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.Name(id=name) if name in variables:
            return variables[name]
        case ast.Subscript(slice=ast.Constant(value=int() as place)) if 0 <= place < len(quantities):
            return quantities[place]
    raise ValueError(f"no operand: {ast.unparse(operand)}")
