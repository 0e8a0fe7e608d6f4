"""Laws of reading problems from a file, the file's mistakes included."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.evaluators.number import parse as parse_answer
from tasks.params.sections import Problems
from tasks.problems.jsonl import Reader
from tasks.problems.splits import split_problems
from tasks.programs.operators.builtin import numbers
from tasks.records.problems import Problem, Sibling, Split

REPOSITORY = Path(__file__).parents[3]
GOOD = '{"question": "2 and 3?", "answer": 5}'


def params_of(train: int, validation: int, test: int, dev: int = 0, confirm: int = 0) -> Problems:
    sizes = {"train": train, "validation": validation, "test": test, "dev": dev, "confirm": confirm}
    return Problems(source="jsonl", path="", evaluator="format", **sizes, siblings=0, replay=0.0, exclude=None)


def sums(count: int) -> list[str]:
    return [line(question=f"{number} and 1?", answer=number + 1) for number in range(count)]


def split(lines: list[str], params: Problems, seed: int = 0) -> dict[Split, list[Problem]]:
    return split_problems("x", Reader().read("x", "\n".join(lines), "x"), params, seed)


def line(**fields: Any) -> str:
    return json.dumps(fields)


def refusal(text: str) -> str:
    with pytest.raises(GraftError) as caught:
        Reader().read("mine.jsonl", text, "mine.jsonl")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_validation_is_of_trusted_lines_where_lines_say_so() -> None:
    lines = [line(question=f"{n} and 1?", answer=n + 1, trusted=n % 4 == 0) for n in range(60)]
    lines[5] = line(question="5 and 1?", answer=6, trusted="true")  # a text is no mark
    found = split(lines, params_of(train=20, validation=15, test=10))
    assert {name: len(listed) for name, listed in found.items()} == {
        "train": 20,
        "validation": 15,
        "test": 10,
        "dev": 0,
        "confirm": 0,
    }
    assert all(problem.fields["trusted"] is True for problem in found["validation"])
    assert len({problem.problem_id for listed in found.values() for problem in listed}) == 45
    more = [line(question=f"{n} and 2?", answer=n + 2) for n in range(30)]
    assert split([*more, *lines], params_of(train=20, validation=15, test=10))["validation"] == found["validation"]
    with pytest.raises(
        GraftError, match=r"^x: trusted is true in 15 lines, but problems.validation asks for 16 of them"
    ):
        split(lines, params_of(train=20, validation=16, test=10))


def test_the_shipped_example_loads() -> None:
    text = (REPOSITORY / "examples/problems.jsonl").read_text(encoding="utf-8")
    problems = Reader().read("problems.jsonl", text, "problems.jsonl")
    assert len(problems) == 12
    assert sum(bool(problem.siblings) for problem in problems) >= 3
    for problem in problems:
        for sibling in problem.siblings:
            assert sibling.answer != problem.answer
            assert len(numbers(sibling.question)) == len(numbers(problem.question))
            assert re.sub(r"[\d/]+|half", "#", sibling.question) == re.sub(r"[\d/]+|half", "#", problem.question)


def test_a_line_becomes_a_problem() -> None:
    one = line(id=7, question=" 2 and 3?\n", answer="Two and three:\n2+3=5\n#### 5", note="left alone")
    siblings = [{"question": "Half of 5?", "answer": "2.5"}]
    two = line(problem_id="b", question="Half of 3?", answer=1.5, siblings=siblings)
    first, second = Reader().read("mine.jsonl", f"\ufeff{one}\r\n\r\n{two}\r\n  ", "mine.jsonl")
    assert (first.problem_id, first.question, first.answer, first.source) == ("7", "2 and 3?", 5, "mine.jsonl")
    assert (first.template, first.seen, first.operations, first.siblings) == (None, None, None, [])
    assert second.siblings == [Sibling(question="Half of 5?", answer=2.5)]


ANSWERS: list[tuple[Any, float]] = [(72, 72), (-3.5, -3.5), ("72", 72), (" 1,234 ", 1234), ("$12", 12)]
ANSWERS += [("-$1,200.50", -1200.5), ("so 5 #### 6\n#### 1,000", 1000), ("####-7", -7), ("#### $0.25", 0.25)]


@pytest.mark.parametrize(("given", "answer"), ANSWERS)
def test_answers_that_are_numbers(given: Any, answer: float) -> None:
    assert parse_answer(given) == answer
    assert type(parse_answer(given)) is type(answer)


TEXTS = [("3/4", "3/4"), ("12 apples", "12 apples"), ("", ""), ("#### none", "none"), ("5 ####", ""), ("1,23", "1,23")]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        *((text, f"{read!r} is no number") for text, read in [*TEXTS, ("1e", "1e"), ("NaN", "NaN")]),
        ("72%", "could mean the percentage or the fraction"),
        ("٣", "is no number"),
        (True, "true or false, not a number"),
        ([5], "a list, not a number"),
        (float("nan"), "nan is not finite"),
        (float("inf"), "inf is not finite"),
        (10**400, "beyond ±1e15"),
        ("9" * 5000, "not finite"),
    ],
)
def test_answers_that_are_none(given: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_answer(given)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{broken", "mine.jsonl:2: not JSON: Expecting property name"),
        ("[" * 100_000, "mine.jsonl:2: not JSON"),
        ('{"question": "q", "answer": ' + "9" * 5000 + "}", "mine.jsonl:2: not JSON"),
        ("[1]", "mine.jsonl:2: a list, not an object"),
        ("5", "mine.jsonl:2: a number, not an object"),
        (line(answer=5), "mine.jsonl:2: question: missing"),
        (line(question="q"), "mine.jsonl:2: answer: missing"),
        (line(question="q", answer=None), "mine.jsonl:2: answer: missing"),
        (line(question="   ", answer=5), "mine.jsonl:2: question: empty"),
        (line(question=5, answer=5), "mine.jsonl:2: question: a number, not a text"),
        (line(question="\ud800", answer=5), "mine.jsonl:2: question: holds half of a surrogate pair"),
        (line(question="q", answer="five"), "mine.jsonl:2: answer: 'five' is no number"),
        ('{"question": "q", "answer": NaN}', "mine.jsonl:2: answer: nan is not finite"),
        (line(question="q", answer=5, siblings={"a": 1}), "mine.jsonl:2: siblings: an object, not a list"),
        (line(question="q", answer=5, siblings=["x"]), "mine.jsonl:2: siblings.0: a text, not"),
        (line(question="q", answer=5, siblings=[{"question": "r"}]), "mine.jsonl:2: siblings.0.answer: missing"),
        (line(problem_id="a/../b", question="q", answer=5), "mine.jsonl:2: problem_id: 'a/../b' cannot name a file"),
        (line(id="..", question="q", answer=5), "mine.jsonl:2: id: '..' cannot name a file"),
        (line(id="", question="q", answer=5), "mine.jsonl:2: id: '' cannot name a file"),
        (line(id=True, question="q", answer=5), "mine.jsonl:2: id: 'True' cannot name a file"),
        (GOOD, "mine.jsonl:2: line 1 asks the same; remove one of the two"),
        (line(question="2 AND 3?", answer=6), "mine.jsonl:2: line 1 asks the same"),
        (line(question="2  and\n3? ", answer=6), "mine.jsonl:2: line 1 asks the same"),
        (
            '{"question": "q", "answer": 2, "answer": 3}',
            "mine.jsonl:2: answer: twice in one object; remove one of the two",
        ),
        ('{"question": "q", "answer": 2, "note": {"answer": 1, "answer": 1}}', "mine.jsonl:2: answer: twice"),
    ],
)
def test_a_bad_line_is_named(bad: str, message: str) -> None:
    assert refusal(f"{GOOD}\n{bad}\n").startswith(message)


def test_what_a_text_that_is_no_json_lines_may_be() -> None:
    assert refusal('[{"question": "1?", "answer": 2, "answer": 2}]').startswith("mine.jsonl: answer: twice")
    assert "write one object on each line: jq" in refusal('{\n  "question": "q"\n}')
    assert "if this is a table, convert it: python -c" in refusal("question,answer\n1?,2")
    assert "run: git lfs pull" in refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0")
    assert "a page of HTML" in refusal("<!DOCTYPE html>\n<html>")


def test_two_problems_with_one_id_and_too_few_lines_are_named() -> None:
    text = "\n".join([line(id="a", question="q", answer=5), "", line(problem_id="a", question="r", answer=6)])
    assert refusal(text).startswith("mine.jsonl:3: line 1 has the problem_id 'a' too")
    with pytest.raises(GraftError, match=r"x: 1 problems, .* ask for 9 \(4 \+ 3 \+ 2\); add lines or ask for fewer$"):
        split([GOOD], params_of(4, 3, 2))
    fewer = "ask for fewer: -S problems.train=4 -S problems.validation=2 -S problems.test=1$"
    with pytest.raises(GraftError, match=fewer):
        split(sums(8), params_of(8, 4, 3))
    message = r"x: 9 problems, but problems\.dev \+ train .* ask for 10 \(1 \+ 4 \+ 3 \+ 2\)"
    with pytest.raises(GraftError, match=message):
        split(sums(9), params_of(4, 3, 2, dev=1))


SIZE = st.integers(1, 9)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), extra=st.integers(0, 5), sizes=st.tuples(SIZE, SIZE, SIZE))
def test_the_split_depends_on_seed_and_ids_only(seed: int, extra: int, sizes: tuple[int, int, int]) -> None:
    lines = sums(sum(sizes) + extra)
    params = params_of(*sizes)
    splits = split(lines, params, seed)
    assert tuple(len(splits[name]) for name in ("train", "validation", "test")) == sizes
    dealt = [problem.problem_id for listed in splits.values() for problem in listed]
    assert len(set(dealt)) == len(dealt)
    random.Random(seed).shuffle(lines)
    assert split(lines, params, seed) == splits
    assert split(lines, params_of(1, *sizes[1:]), seed)["test"] == splits["test"]
    others = split(lines, params_of(*sizes, dev=extra), seed)
    assert {**others, "dev": []} == splits
    assert len({problem.problem_id for listed in others.values() for problem in listed}) == sum(sizes) + extra
    aside = split(lines, params_of(*sizes, confirm=extra), seed)
    assert {**aside, "confirm": []} == splits
    assert len({problem.problem_id for listed in aside.values() for problem in listed}) == sum(sizes) + extra
    assert split(sums(40), params_of(20, 10, 10), 0) != split(sums(40), params_of(20, 10, 10), 1)
