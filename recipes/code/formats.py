"""Formats of data sets of code, recognised by their columns, as tasks/problems/formats.py has those of other kinds."""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from recipes.code.evaluator import EVALUATOR, UNIT_TESTS
from tasks.problems.row import ColumnError, Columns, Format, Row, check_text, needs, texts_of
from tasks.programs.code_blocks import shown_tests

_STDIN = "its tests are of programs that read standard input, and Graft's call a function: write entry_point and tests"

_FOREIGN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("APPS", ("question", "input_output"), _STDIN),
    ("LiveCodeBench", ("question_content", "public_test_cases"), _STDIN),
    ("CodeContests", ("description", "public_tests"), _STDIN),
    ("Codeforces", ("description", "official_tests"), _STDIN),
    ("LeetCode", ("entry_point", "test", "prompt"), "write a function, not a method, as entry_point, and tests"),
    ("MultiPL-E", ("prompt", "tests", "language"), "its tests are not Python; take HumanEval or MBPP"),
    ("SWE-bench", ("repo", "base_commit", "patch"), "write functions with question, entry_point and tests"),
)
"""Formats that are not read: name, columns that a line has, what to do."""


def _human_eval(row: Columns) -> Row:
    """A line of HumanEval, or of BigCodeBench, whose prompt for a completion is longer than its code."""
    asked, prompt = ("complete_prompt", "code_prompt") if "complete_prompt" in row else ("prompt", "prompt")
    answer = {
        "entry_point": row["entry_point"],
        "prompt": row[prompt],
        "shown": shown_tests(row[prompt]) if asked == prompt else [],
        "hidden": row["test"],
        "solution": row["canonical_solution"],
    }
    return Row(check_text(asked, row[asked]), answer, "test")


def _mbpp(row: Columns) -> Row:
    name = "text" if "text" in row else "prompt"
    imports = [value for column in ("test_setup_code", "test_imports") if (value := row.get(column))]
    setup = imports[0] if imports else ""
    shown, hidden = _first_shown("test_list", row)
    answer = {
        "entry_point": row.get("entry_point") or _called("test_list", [*shown, *hidden], row["code"]),
        "setup": setup if isinstance(setup, str) else "\n".join(setup),
        "shown": shown,
        "hidden": [
            *([row["test"]] if isinstance(row.get("test"), str) else hidden),  # the tests of MBPP+ are one text
            *texts_of("challenge_test_list", row.get("challenge_test_list") or []),
        ],
        "solution": row["code"],
    }
    question = "\n".join([check_text(name, row[name]), *shown])
    return Row(question, answer, "test_list", problem_id=f"mbpp-{row['task_id']}")


def _kod_code(row: Columns) -> Row:
    tests, solution = row["test"], row["solution"]
    answer = {"entry_point": _called("test", [tests], solution), "hidden": tests, "solution": solution}
    return Row(check_text("question", row["question"]), answer, "test")


def _ace_code(row: Columns) -> Row:
    shown, hidden = _first_shown("test_cases", row)
    answer: dict[str, Any] = {"entry_point": _first_call([*shown, *hidden]), "shown": shown, "hidden": hidden}
    return Row("\n".join([check_text("question", row["question"]), *shown]), answer, "test_cases")


def _code(row: Columns) -> Row:
    names = ("entry_point", "prompt", "setup", "shown", "solution")
    answer = {"hidden": row["tests"], **{name: row.get(name) for name in names}}
    shown = texts_of("shown", row.get("shown") or [])
    question = check_text("question", row["question"])
    return Row("\n".join([question, *(test for test in shown if test not in question)]), answer, "tests")


def _first_shown(column: str, row: Columns) -> tuple[list[str], list[str]]:
    """The first of a list of tests, to be shown, and the others; a single one is hidden."""
    tests = texts_of(column, row[column])
    return (tests[:1], tests[1:]) if len(tests) > 1 else ([], tests)


def _called(column: str, tests: Sequence[str], code: Any) -> str:
    """The function that the tests call, of those that the code defines; the last of several."""
    defined = re.findall(r"^(?:def|class) +(\w+)|^(\w+) *=", str(code), re.MULTILINE)
    names = [first or second for first, second in defined if re.search(rf"\b{first or second}\(", "\n".join(tests))]
    if not names:
        raise ColumnError(column, "calls no function that the code defines; fix the line")
    return str(names[-1])


def _first_call(tests: Sequence[str]) -> str:
    """The function that the first test calls first."""
    with_calls = (node for test in tests[:1] for node in ast.walk(ast.parse(test)))
    for node in with_calls:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id
    raise ColumnError("test_cases", "the first calls no function; fix the line")


def _without_answer(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """A test of a line: it has these columns, and is not one of Graft's own format that has them besides."""
    return lambda row: "answer" not in row and needs(*names)(row)


def _format(
    name: str,
    fits: Callable[[Mapping[str, Any]], bool],
    read: Callable[[Columns], Row],
    ids: tuple[str, ...] = Format.ids,
) -> Format:
    return Format(name, UNIT_TESTS, fits, read, ids, EVALUATOR)


def _refused(name: str, columns: tuple[str, ...], remedy: str) -> Format:
    """A format whose lines are refused with the way to convert them, where they are not of Graft's own format too."""

    def read(_: Columns) -> Row:
        raise ColumnError(columns[-1], f"this is the format of {name}; {remedy}")

    return _format(name, lambda row: needs(*columns)(row) and not needs("question", "answer")(row), read)


_OF_COMPLETIONS = ("entry_point", "canonical_solution")
FORMATS = (
    _format("HumanEval", needs("task_id", "prompt", *_OF_COMPLETIONS), _human_eval, ("task_id",)),
    _format("BigCodeBench", needs("complete_prompt", *_OF_COMPLETIONS), _human_eval, ("task_id",)),
    _format("MBPP", needs("task_id", "code", "test_list"), _mbpp),
    _format("code with tests", needs("question", "entry_point", "tests"), _code, ("id", "problem_id")),
    _format("KodCode", _without_answer("question", "solution", "test"), _kod_code),
    _format("AceCode", _without_answer("question", "test_cases"), _ace_code),
    *(_refused(*each) for each in _FOREIGN),
)
"""In the order in which they are tried."""
