"""Unit tests of files: those that check nothing are refused when the file is read, with line and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from recipes.code.environment import Code
from tasks.errors import GraftError
from tasks.params.sections import SandboxParams
from tasks.problems.jsonl import Reader, read_files
from tasks.records.problems import Problem

SANDBOX = SandboxParams(seconds=1.0, memory_mb=256, allow_weak=False)
HUMAN_EVAL = Path(__file__).parents[4] / "shared/data/humaneval/HumanEval.jsonl"

NEVER_RUN = {
    "empty": "",
    "a comment": "# assert f(2) == 3",
    "a print": "print(f(2) == 3)",
    "an expression": "f(2) == 3",
    "a call": "f(2)",
    "a constant": "assert True",
    "a function that is not called": "def verify(candidate):\n    assert candidate(2) == 3\n",
    "check that returns": "def check(candidate):\n    return candidate(2) == 3\n",
    "a branch": "if False:\n    assert f(2) == 3\n",
    "an empty loop": "for x in []:\n    assert f(x) == x + 1\n",
    "another name of main": "if __name__ == 'tests':\n    assert f(2) == 3\n",
    "the function alone": "def check(candidate):\n    assert candidate\n    assert callable(candidate)\n",
    "empty test functions": "def test_f():\n    pass\n",
    "an empty class": "import unittest\nclass TestF(unittest.TestCase):\n    pass\n",
    "a lambda": "check = lambda candidate: candidate(2) == 3\n",
}
CANNOT_RUN = {
    "async def check(candidate):\n    assert candidate(2) == 3\n": "check is async, so that it would not run",
    "def check(candidate, other):\n    assert candidate(2) == 3\n": "check needs more than the function under test",
    "async def test_f():\n    assert f(2) == 3\n": "test_f is async, so that it would not run; write def test_f",
    "def test_f(capsys):\n    assert f(2) == 3\n": "test_f needs capsys; fixtures are not there",
    "import pandas\nassert f(2) == 3\n": "pandas is not there to import",
    "from unittest import mock\nassert f(2) == 3\n": "unittest.mock is not there to import",
    "import unittest\nclass T(unittest.TestCase):\n    async def test_f(self):\n        pass\n": "T.test_f is async",
}


def lines(*tests: Any, **others: Any) -> str:
    rows = [{"question": f"x plus 1, {n}", "entry_point": "f", "tests": each} | others for n, each in enumerate(tests)]
    return "\n".join(map(json.dumps, rows))


def read(text: str) -> list[Problem]:
    return Reader(environment=Code(), sandbox=SANDBOX).read("own.jsonl", text, "own.jsonl")


def refusal(text: str) -> str:
    with pytest.raises(GraftError) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_tests_that_check_nothing_are_refused_in_every_line() -> None:
    good = ["assert f(2) == 3"]
    told = refusal(lines(good, *([each] for each in NEVER_RUN.values())))
    assert told.startswith("own.jsonl:2: tests: none in them would run; write asserts, a function check(candidate)")
    assert told.endswith(", ".join(f"line {n}" for n in range(3, len(NEVER_RUN) + 2)))
    mixed = refusal(lines([*good, "print(f(2))\nassert 1 + 1 == 2"]))
    assert mixed == "own.jsonl:1: tests: one of them passes whatever the function returns; remove it"


def test_tests_that_cannot_run_are_refused_with_the_reason() -> None:
    for text, reason in CANNOT_RUN.items():
        assert refusal(lines([text])).startswith(f"own.jsonl:1: tests: {reason}")


def test_a_solution_of_the_file_has_to_pass() -> None:
    tests = ["assert f(2) == 3", "assert f(3) == 4"]
    (right,) = read(lines(tests, solution="def f(x): return x + 1"))
    assert isinstance(right.answer, dict)
    assert right.answer["counts"] == [1, 1]
    late = refusal(lines(tests, solution="def f(x):\n    while x > 2: pass\n    return x + 1"))
    assert late.endswith("fails assert f(3) == 4 (out of time); raise sandbox.seconds, or remove the line")
    lacking = refusal(lines(tests, solution="import queue\ndef f(x): return x + 1"))
    assert "fails assert f(2) == 3 (module queue is not available in the sandbox; available: abc, " in lacking


FAILURES = [
    ("assert f(3) == 4", "def f(x): return 3", "1 of the 2 hidden tests, fails assert f(3) == 4 (AssertionError)"),
    ("assert f(3) == 4", "def f(x): return y", "0 of the 2 hidden tests, fails assert f(2) == 3 (NameError: name 'y' "),
    ("assert f(3) == 4", "def f(x): return (x", "fails assert f(2) == 3 (SyntaxError: '(' was never closed (line 1))"),
    ("assert f(3) == 4", "def g(x): return x", "fails assert f(2) == 3 (it defines no f)"),
    ("y = [f(0)]\nassert y[0]", "def f(x): return 6 // x", "fails y = [f(0)] (ZeroDivisionError: integer division or "),
    ("def check(f):\n    for x in 2, 3, 4:\n        assert f(x) == x + 1, x\n", "def f(x): return 3",
     "2 of the 4 hidden tests, fails assert f(x) == x + 1, x (AssertionError: 3)"),
    ("import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual([f(3)], [4])\n",
     "def f(x): return 3", "fails self.assertEqual([f(3)], [4]) (AssertionError: Lists differ: [3] != [4])"),
]  # fmt: skip


@pytest.mark.parametrize(("test", "solution", "told"), FAILURES)
def test_the_first_test_that_a_solution_fails_is_named_with_the_exception(test: str, solution: str, told: str) -> None:
    wrong = refusal(lines(["assert f(2) == 3", test], solution=solution))
    assert wrong.startswith("own.jsonl:1: solution: passes ")
    assert told in wrong
    assert wrong.endswith("; correct it, or remove the line")


def test_tests_in_a_loop_are_counted_when_the_file_is_read() -> None:
    loop = ["def check(candidate):\n    for x in range(20):\n        assert candidate(x) == x + 1\n"]
    for others in ({"solution": "def f(x): return x + 1"}, {}):
        (problem,) = read(lines(loop, **others))
        assert isinstance(problem.answer, dict)
        assert problem.answer["counts"] == [20]
    (unknown,) = read(lines(["for x in range(20):\n    y = f(x) + 1\n    assert y == x + 2\n"]))
    assert isinstance(unknown.answer, dict)
    assert unknown.answer["counts"] == [None]


def test_mbpp_with_a_check_that_has_no_parameter_is_run() -> None:
    row = {"task_id": 1, "prompt": "Add one.", "code": "def f(x):\n    return x + 1", "entry_point": "f"}
    row |= {"test_list": ["assert f(1) == 2", "assert f(2) == 3"], "test_imports": []}
    row["test"] = "def check():\n    assert f(1) == 2\n    assert f(2) == 3\n"
    (problem,) = read(json.dumps(row))
    assert isinstance(problem.answer, dict)
    assert problem.answer["counts"] == [2]
    assert "1 of the 2" in refusal(json.dumps(row | {"code": "def f(x):\n    return 2"}))


DOUBT = "tests: all of them are shown, so that a program which returns what is shown passes; add one that is not"


def doubts(text: str) -> list[str]:
    reader = Reader(environment=Code(), sandbox=SANDBOX)
    told = list[str]()
    read_files([("own.jsonl", text, "own.jsonl")], reader, told.append)
    assert reader.notes == [line for line in told if line.startswith("own.jsonl:1: ")]
    return reader.notes


@pytest.mark.parametrize(("shown", "tests"), [
    (["assert f(2) == 3"], ["assert f(2) == 3"]),
    (["assert f(2) == 3", "assert f(3) == 4"], ["assert f(3) == 4", "assert 3 == f(2), 'three'"]),
    (["assert f(2, by=1) == 3"], ["def check(candidate):\n    assert candidate(2, by=1) == 3\n"]),
    (["assert f((2, 3)) == {3: [4]}"], ["def test_f():\n    x = f((2, 3))\n    assert x == {3: [4]}\n"]),
    (["assert f(2) is True", "assert not f(3)"],
     ["import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertTrue(f(2))\n"
      "        self.assertFalse(f(3))\n"]),
    ([], ["assert f('a') == 3"]),
])  # fmt: skip
def test_hidden_tests_that_are_shown_are_named_with_the_line(shown: list[str], tests: list[str]) -> None:
    asked = {"question": "x plus 1\n>>> f('a')\n3", "shown": shown}
    assert doubts(lines(tests, **asked)) == [f"own.jsonl:1: {DOUBT}"]
    assert doubts(lines([*tests, "assert f(9) == 10"], **asked)) == []


def test_shown_tests_that_the_solution_fails_are_left_out_and_named_with_the_line() -> None:
    solution = {"solution": "def f(x): return x + 1", "shown": ["assert f(2) == 4", "assert f(3) == 4"]}
    text = lines(["assert f(5) == 6"], **solution)
    assert doubts(text) == [
        "own.jsonl:1: shown: the line's solution fails assert f(2) == 4: left out; correct the example"
    ]
    (problem,) = read(text)
    assert isinstance(problem.answer, dict)
    assert problem.answer["shown"] == ["assert f(3) == 4"]
    docstring = {"prompt": 'def middle(xs):\n    """The middle.\n    >>> middle([4, 1, 9])\n    9\n    """\n'}
    row = docstring | {"task_id": "T/0", "entry_point": "middle", "canonical_solution": "    return sorted(xs)[1]\n"}
    row["test"] = "def check(candidate):\n    assert candidate([4, 1, 9]) == 4\n"
    (told,) = doubts(json.dumps(row))
    assert told.startswith("own.jsonl:1: shown: the line's solution fails assert middle([4, 1, 9]) == 9: left out")
    assert doubts(lines(["assert f(5) == 6"], shown=["assert f(2) == 4"])) == []  # nothing to try them with


@pytest.mark.skipif(not HUMAN_EVAL.exists(), reason="HumanEval is not here")
def test_all_solutions_of_human_eval_pass() -> None:
    reader = Reader(environment=Code(), sandbox=SANDBOX)
    assert len(reader.read("HumanEval", HUMAN_EVAL.read_text(encoding="utf-8"), "HumanEval")) == 164
    assert [note.partition(": ")[0] for note in reader.notes] == [f"HumanEval:{line}" for line in (35, 48, 131)]
