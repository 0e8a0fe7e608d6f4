"""Check of the unit tests of a file: empty programs fail them, its solutions pass, and hidden ones ask for more.

Tests that never run would otherwise count as passed by any program, and tests that no program can pass as failed. The
run also counts the tests: those in a loop are not known from the text, and a program that ends at the first test that
it fails would have passed all of the others. HumanEval has examples that its own solution fails, and a problem without
a test beyond its example, so that such lines are named, not refused.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from recipes.code.evaluator import UNIT_TESTS
from recipes.code.harness.cases import CANDIDATE
from recipes.code.harness.outcomes import (
    LATE,
    Outcome,
    TextVerdicts,
    UnitTests,
    first_failures,
    make_test_sandbox,
    run_unit_tests,
    text_verdicts,
)
from tasks.core.terminal import shortened
from tasks.environments.protocol import CheckedProblems
from tasks.errors import GraftError
from tasks.params.sections import SandboxParams
from tasks.programs.code_blocks import parsed, shown_tests, syntax_tree
from tasks.programs.sandbox.sandbox import SANDBOX_DIED, Sandbox
from tasks.records.problems import Problem

Texts = Sequence[TextVerdicts]
"""Verdicts of one program, for each text of tests."""

LONGEST = 100
"""Characters of a line of tests."""

_FORMS = "asserts, a function check(candidate), functions test_… or a unittest.TestCase"
_EMPTY = ("", "def {}(*args, **kwargs): pass\n", "def {0}(*args, **kwargs): return {0}\n")
"""Programs that do nothing: without the function, with one that returns None, and one that returns an object."""


def check_unit_tests(problems: Mapping[str, Problem], params: SandboxParams) -> CheckedProblems:
    """The problems with the numbers of their tests; those of no code as they are.

    Shown tests that the file's own solution fails are left out: search would be led by a wrong example in a docstring.
    Raises GraftError if the sandbox does not start, or dies.
    """
    answers: dict[str, Any] = {p: problem.answer for p, problem in problems.items() if problem.evaluator == UNIT_TESTS}
    refused, doubts = dict[str, str](), dict[str, str]()
    if answers:
        with make_test_sandbox(params) as sandbox:
            refused |= _count(sandbox, answers)
            refused |= _try_solutions(sandbox, {p: a for p, a in answers.items() if a["solution"] and p not in refused})
            used = {p: answer for p, answer in answers.items() if p not in refused}
            doubts |= _known_from_shown(sandbox, {p: (problems[p].question, answer) for p, answer in used.items()})
            for place, wrong in _wrong_examples(sandbox, used).items():
                answers[place] |= {"shown": [test for test in answers[place]["shown"] if test not in wrong]}
                doubts[place] = f"shown: the line's solution fails {'; '.join(wrong)}: left out; correct the example"
    counted = {
        place: problem.model_copy(update={"answer": answers[place]}) if place in answers else problem
        for place, problem in problems.items()
        if place not in refused
    }
    in_order = ({place: reasons[place] for place in problems if place in reasons} for reasons in (refused, doubts))
    return CheckedProblems(counted, *in_order)


def _count(sandbox: Sandbox, answers: dict[str, Any]) -> dict[str, str]:
    """Add `counts` to answers, the number of tests in each hidden text, None if unknown; why others are refused."""
    jobs = [
        (code, UnitTests.of(answer, "hidden"))
        for answer in answers.values()
        for code in (*(code.format(answer["entry_point"]) for code in _EMPTY), answer["solution"])
    ]
    verdicts = iter(text_verdicts(sandbox, jobs))
    refused = {}
    for place, answer in answers.items():
        empty, none, some, solved = islice(verdicts, 4)
        if reason := _reason(empty, none, some):
            refused[place] = reason
        run = solved if answer["solution"] else none
        answers[place] = answer | {"counts": [unit.passed + unit.failed if unit.ended else None for unit in run]}
    return refused


def _reason(empty: Texts, none: Texts, some: Texts) -> str | None:
    """Why tests cannot be used, from the verdicts on the programs that do nothing; None if they can."""
    if not (empty and none and some):
        return "tests: they exceed the limits whatever the program does; remove the line"
    faults = [fault for unit in none for fault in unit.faults]
    if faults:
        return f"tests: {faults[0]}"
    if not any(unit.tests for unit in none):
        return f"tests: none in them would run; write {_FORMS}"
    if all(map(_passes, empty)) or all(map(_passes, none)):
        return f"tests: a program that does nothing passes them; write {_FORMS} that fail then"
    if any(one.tests and _passes(one) and _passes(other) for one, other in zip(none, some, strict=True)):
        return "tests: one of them passes whatever the function returns; remove it"
    return None


def _try_solutions(sandbox: Sandbox, answers: Mapping[str, Any]) -> dict[str, str]:
    jobs = [(answer["solution"], UnitTests.of(answer, "hidden")) for answer in answers.values()]
    outcomes = run_unit_tests(sandbox, jobs)
    if None in outcomes:
        raise GraftError(f"unit tests: {SANDBOX_DIED}; run: graft doctor")
    tried = zip(answers, jobs, outcomes, strict=True)
    failed = {place: (job, outcome) for place, job, outcome in tried if outcome and outcome.passed < outcome.total}
    told = first_failures(sandbox, [job for job, _ in failed.values()])
    return {
        place: _failure(outcome, line, _reason_of_program(answers[place], error))
        for (place, (_, outcome)), (line, error) in zip(failed.items(), told, strict=True)
    }


def _known_from_shown(sandbox: Sandbox, asked: Mapping[str, tuple[str, Any]]) -> dict[str, str]:
    """Doubts about hidden tests that add nothing to what the question or its shown tests say."""
    known = {place: code for place, pair in asked.items() if (code := lookup_program(*pair))}
    jobs = [(code, UnitTests.of(asked[place][1], "hidden")) for place, code in known.items()]
    passed = [bool(units) and all(map(_passes, units)) for units in text_verdicts(sandbox, jobs)]
    doubt = "tests: all of them are shown, so that a program which returns what is shown passes; add one that is not"
    return {place: doubt for place, is_known in zip(known, passed, strict=True) if is_known}


def _wrong_examples(sandbox: Sandbox, answers: Mapping[str, Any]) -> dict[str, list[str]]:
    """The shown tests that the line's own solution fails; none where it exceeds the limits."""
    tried = {place: answer for place, answer in answers.items() if answer["solution"] and answer["shown"]}
    jobs = [(answer["solution"], UnitTests.of(answer, "shown")) for answer in tried.values()]
    failed = {
        place: [test for test, unit in zip(answer["shown"], units, strict=False) if not _passes(unit)]
        for (place, answer), units in zip(tried.items(), text_verdicts(sandbox, jobs), strict=True)
    }
    return {place: wrong for place, wrong in failed.items() if wrong}


def _failure(outcome: Outcome, line: str, error: str) -> str:
    """Why a solution is refused, with the line of the first test that it fails, and why."""
    test, why = f", fails {shortened(line, LONGEST)}" if line else "", outcome.ending or error
    remedy = "raise sandbox.seconds, or remove the line" if outcome.ending == LATE else "correct it, or remove the line"
    passed = f"passes {outcome.passed} of the {outcome.total} hidden tests"
    return f"solution: {passed}{test}{f' ({why})' if why else ''}; {remedy}"


def _reason_of_program(answer: Any, error: str) -> str:
    """A program's exception or, where it lacks the function, what is wrong with its text."""
    lacks_function = error == f"KeyError: {answer['entry_point']!r}"
    if lacks_function or error == "SyntaxError":
        try:
            syntax_tree(answer["prompt"] + answer["solution"])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as broken:
            return f"{type(broken).__name__}: {broken}".replace("<unknown>, ", "")
    return f"it defines no {answer['entry_point']}" if lacks_function else error


def _passes(unit: TextVerdicts) -> bool:
    return unit.ended and not unit.failed


def lookup_program(question: str, answer: Mapping[str, Any]) -> str:
    """A function that returns what the shown tests say for their arguments, and None for others; "" without any.

    `answer`: the tests of a problem as its record has them; the question may show more.
    """
    name = answer["entry_point"]
    shown = dict.fromkeys([*answer["shown"], *shown_tests(question)])
    known = dict.fromkeys(pair for text in shown for pair in _pairs(text, {name, CANDIDATE}))
    rows = "".join(f"        (({args}), {value}),\n" for args, value in known)
    if not rows:
        return ""
    return (
        f"def {name}(*args, **kwargs):\n    for known, value in [\n{rows}    ]:\n"
        "        if known == (args, kwargs):\n            return value\n"
    )


def _pairs(text: str, names: set[str]) -> Iterator[tuple[str, str]]:
    """(arguments, value) of each comparison with a call in a text of tests, as code."""
    tree = parsed(text)
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Assert(test=ast.Call() as call):
                sides: tuple[ast.expr, ast.expr] = (call, ast.Constant(True))
            case ast.Assert(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call)):
                sides = (call, ast.Constant(False))
            case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                sides = (left, right) if isinstance(left, ast.Call) else (right, left)
            case _:
                continue
        match sides:
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords), value if name in names:
                named = ", ".join(f"{keyword.arg!r}: {ast.unparse(keyword.value)}" for keyword in keywords)
                if _are_literal([*args, *(keyword.value for keyword in keywords), value]):
                    yield f"({''.join(f'{ast.unparse(each)}, ' for each in args)}), {{{named}}}", ast.unparse(value)


def _are_literal(nodes: list[ast.expr]) -> bool:
    try:
        for node in nodes:
            ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
