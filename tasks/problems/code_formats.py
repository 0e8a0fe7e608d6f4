"""Formats of problems whose answers are code with unit tests."""

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from tasks.problems.columns import ColumnError, check_text
from tasks.problems.row import Columns, Format, Row, id_in, id_of, needs, texts_of
from tasks.programs.operators.shown_tests import shown_tests
from tasks.records import UNIT_TESTS


def _human_eval(row: Columns) -> Row:
    answer = {
        "entry_point": row["entry_point"],
        "prompt": row["prompt"],
        "shown": shown_tests(row["prompt"]),
        "hidden": row["test"],
        "solution": row["canonical_solution"],
    }
    names = ("test", "entry_point", "canonical_solution", "prompt", "task_id")
    return Row(check_text("prompt", row["prompt"]), answer, names, id_of(row["task_id"]), "test")


def _big_code_bench(row: Columns) -> Row:
    answer = {
        "entry_point": row["entry_point"],
        "prompt": row["code_prompt"],
        "hidden": row["test"],
        "solution": row["canonical_solution"],
    }
    names = ("test", "entry_point", "canonical_solution", "complete_prompt", "code_prompt", "task_id")
    return Row(check_text("complete_prompt", row["complete_prompt"]), answer, names, id_of(row["task_id"]), "test")


def _mbpp(row: Columns) -> Row:
    name = "text" if "text" in row else "prompt"
    imports = row.get("test_setup_code") or row.get("test_imports") or []
    tests = texts_of("test_list", row["test_list"])
    shown, hidden = (tests[:1], tests[1:]) if len(tests) > 1 else ([], tests)
    if isinstance(row.get("test"), str):  # MBPP+
        hidden = [row["test"]]
    answer = {
        "entry_point": row.get("entry_point") or _called("test_list", tests, row["code"]),
        "setup": imports if isinstance(imports, str) else "\n".join(imports),
        "shown": shown,
        "hidden": [*hidden, *texts_of("challenge_test_list", row.get("challenge_test_list") or [])],
        "solution": row["code"],
    }
    used = ("test_list", name, "code", "test_setup_code", "test_imports", "task_id", "test", "challenge_test_list")
    question = "\n".join([check_text(name, row[name]), *shown])
    return Row(question, answer, (*used, "entry_point"), f"mbpp-{row['task_id']}", "test_list")


def _kod_code(row: Columns) -> Row:
    answer = {
        "entry_point": _called("test", [row["test"]], row["solution"]),
        "hidden": row["test"],
        "solution": row["solution"],
    }
    return Row(check_text("question", row["question"]), answer, ("question", "test", "solution"), id_in(row), "test")


def _ace_code(row: Columns) -> Row:
    tests = texts_of("test_cases", row["test_cases"])
    shown, hidden = (tests[:1], tests[1:]) if len(tests) > 1 else ([], tests)
    answer: dict[str, Any] = {"entry_point": _first_call(tests), "shown": shown, "hidden": hidden}
    question = "\n".join([check_text("question", row["question"]), *shown])
    return Row(question, answer, ("question", "test_cases", "id"), id_in(row), "test_cases")


def _code(row: Columns) -> Row:
    names = ("entry_point", "prompt", "setup", "shown", "solution")
    answer = {"hidden": row["tests"], **{name: row.get(name) for name in names}}
    shown = texts_of("shown", row.get("shown") or [])
    question = check_text("question", row["question"])
    asked = "\n".join([question, *(test for test in shown if test not in question)])
    return Row(
        asked,
        answer,
        ("question", "tests", *names, "id", "problem_id"),
        id_in(row) or id_of(row.get("problem_id")),
        "tests",
    )


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


def _without_answer(*names: str) -> Callable[[Columns], bool]:
    """A test of a line: it has these columns, and is not one of Graft's own format that has them besides."""
    return lambda row: "answer" not in row and needs(*names)(row)


CODE_FORMATS = (
    Format("HumanEval", UNIT_TESTS, needs("task_id", "prompt", "entry_point", "canonical_solution"), _human_eval),
    Format("BigCodeBench", UNIT_TESTS, needs("complete_prompt", "entry_point", "canonical_solution"), _big_code_bench),
    Format("MBPP", UNIT_TESTS, needs("task_id", "code", "test_list"), _mbpp),
    Format("code with tests", UNIT_TESTS, needs("question", "entry_point", "tests"), _code),
    Format("KodCode", UNIT_TESTS, _without_answer("question", "solution", "test"), _kod_code),
    Format("AceCode", UNIT_TESTS, _without_answer("question", "test_cases"), _ace_code),
)
"""In the order in which they are tried."""
