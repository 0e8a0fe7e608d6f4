"""Lines of public data sets of code, with the columns that their pages and the Hugging Face hub publish."""

import json
from typing import Any

import pytest

from recipes.code.environment import Code
from tasks.errors import GraftError
from tasks.problems.jsonl import Reader
from tasks.records.problems import Problem

KOD: dict[str, Any] = {"question": "x plus 1", "solution": "def f(x):\n    return x + 1", "question_id": "K_1"}
KOD |= {"test": "from solution import f\n\ndef test_f():\n    assert f(2) == 3\n", "test_info": []}


def read(*rows: Any) -> list[Problem]:
    return Reader(environment=Code()).read("data.jsonl", "\n".join(map(json.dumps, rows)), "data.jsonl")


def refusal(row: Any) -> str:
    with pytest.raises(GraftError) as caught:
        read(row)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_code_with_tests_of_pytest_or_asserts_alone_is_read() -> None:
    kod, ace = (
        read(KOD)[0].answer,
        read({"id": "a", "question": "x", "test_cases": ["assert f(1)", "assert f(2)"]}),
    )
    assert isinstance(kod, dict)
    assert (kod["entry_point"], kod["hidden"], kod["solution"]) == ("f", [KOD["test"]], KOD["solution"])
    assert isinstance(ace[0].answer, dict)
    assert (ace[0].answer["entry_point"], ace[0].answer["hidden"]) == ("f", ["assert f(2)"])


def test_mbpp_shows_its_first_test_and_hides_the_others() -> None:
    tests = ["assert f(1) == 2", "assert f(2) == 3", "assert f(9) == 10"]
    row = {"task_id": 2, "text": "Add one.", "code": "def g(x): return x\ndef f(x): return x + 1", "test_list": tests}
    (mbpp,) = read(row | {"test_setup_code": "import math"})
    assert mbpp.question == "Add one.\nassert f(1) == 2"
    answer: Any = mbpp.answer
    assert (answer["entry_point"], answer["setup"]) == ("f", "import math")
    assert (answer["shown"], answer["hidden"]) == (tests[:1], tests[1:])
    plus = {**row, "prompt": row["text"], "test_imports": [], "test": "for x in (1, 2):\n    assert f(x) == x + 1"}
    (better,) = read(plus)
    answer = better.answer
    assert answer["hidden"] == [plus["test"]]


def test_code_of_ones_own_names_its_tests() -> None:
    row = {"question": "x plus 1", "entry_point": "f", "tests": ["assert f(2) == 3"], "shown": ["assert f(1) == 2"]}
    (own,) = read({**row, "problem_id": "one", "level": 1})
    assert (own.problem_id, own.question, own.fields) == ("one", "x plus 1\nassert f(1) == 2", {"level": 1})
    assert refusal({**row, "tests": []}).startswith("data.jsonl:1: tests: no test is hidden")


@pytest.mark.parametrize(("row", "message"), [
    ({"question": "q", "input_output": "{}", "solutions": "[]"}, "input_output: this is the format of APPS; its tests"),
    ({"question_content": "q", "public_test_cases": "[]"}, "public_test_cases: this is the format of LiveCodeBench"),
    ({"description": "q", "public_tests": {}}, "public_tests: this is the format of CodeContests"),
])  # fmt: skip
def test_a_format_that_is_not_read_says_what_it_is(row: dict[str, Any], message: str) -> None:
    assert refusal(row).startswith(f"data.jsonl:1: {message}")
