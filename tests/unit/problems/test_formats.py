"""Lines of public data sets, with the columns that their pages and the Hugging Face hub publish."""

import json
from typing import Any

import pytest

from tasks.errors import GraftError
from tasks.problems.formats import FORMATS
from tasks.problems.jsonl import Reader
from tasks.problems.row import DEEPEST, LONGEST, LONGEST_CONTEXT
from tasks.programs.operators.builtin import context, without_context
from tasks.records.problems import Problem

PARAGRAPHS = [["Paris", ["Paris is a city.", " It is in France."]], ["Rome", ["Rome is older."]]]
DATE = {"day": "", "month": "", "year": ""}
CHOICES = {"text": ["red", "blue", "green"], "label": ["A", "B", "C"]}

LINES: dict[str, list[tuple[dict[str, Any], str, Any, str]]] = {  # format → (line, question, answer, problem_id)
    "GSM8K": [({"question": "2 and 3?", "answer": "2+3=<<2+3=5>>5\n#### 5"}, "2 and 3?", 5, "q-")],
    "MATH": [
        (
            {"problem": "Half?", "level": "Level 2", "type": "Algebra", "solution": r"It is $\boxed{\frac{1}{2}}$."},
            "Half?", r"\frac{1}{2}", "q-",
        ),
        (
            {"problem": "Half?", "solution": "…", "answer": "0.5", "subject": "Algebra", "level": 2,
             "unique_id": "test/algebra/7.json"},
            "Half?", "0.5", "test-algebra-7.json",
        ),
        ({"problem": "Root?", "solution": "…", "answer": r"\sqrt{2}"}, "Root?", r"\sqrt{2}", "q-"),
    ],
    "AIME": [
        ({"id": 60, "problem": "Find m+n.", "solution": "…", "answer": "204", "url": "u", "year": "2024"},
         "Find m+n.", 204, "60"),
        ({"ID": "2024-II-4", "Problem": "Find it.", "Solution": "…", "Answer": 33}, "Find it.", 33, "2024-II-4"),
        ({"problem": "Find.", "answer": "070", "id": "0"}, "Find.", 70, "0"),
    ],
    "HotpotQA": [
        (
            {"id": "5a7", "question": "Where?", "answer": "France", "type": "bridge", "level": "easy",
             "supporting_facts": {"title": ["Paris"], "sent_id": [1]},
             "context": {"title": ["Paris", "Rome"], "sentences": [body for _, body in PARAGRAPHS]}},
            "Where?", "France", "5a7",
        ),
        (
            {"_id": "5a8", "question": "Where?", "answer": "France", "supporting_facts": [["Paris", 1]],
             "context": PARAGRAPHS, "type": "bridge", "level": "easy"},
            "Where?", "France", "5a8",
        ),
    ],
    "DROP": [
        (
            {"section_id": "nfl_1", "query_id": "q1", "passage": "Smith ran 3 yards.", "question": "How far?",
             "answers_spans": {"spans": ["3 yards", "3"], "types": ["span", "number"]}},
            "How far?", [["3"], ["3 yards"]], "q1",
        ),
        (
            {"passage": "In March 1999 …", "question": "When?", "query_id": "q2",
             "answer": {"number": "", "date": {**DATE, "month": "March"}, "spans": []},
             "validated_answers": [{"number": "3", "date": DATE, "spans": []}]},
            "When?", [["March"], ["3"]], "q2",
        ),
    ],
    "MMLU": [
        ({"question": "Colour?", "subject": "art", "choices": ["red", "blue", "green", "grey"], "answer": 1},
         "Colour?\nA) red\nB) blue\nC) green\nD) grey", "B", "q-"),
    ],
    "ARC": [
        ({"id": "Mercury_7", "question": "Colour?", "choices": CHOICES, "answerKey": "C"},
         "Colour?\nA) red\nB) blue\nC) green", "C", "Mercury_7"),
        ({"id": "TX_1", "question": "Colour?", "choices": {**CHOICES, "label": ["1", "2", "3"]}, "answerKey": "2"},
         "Colour?\nA) red\nB) blue\nC) green", "B", "TX_1"),
        ({"id": "M_1", "answerKey": "A",
          "question": {"stem": "Colour?", "choices": [{"text": "red", "label": "A"}, {"text": "blue", "label": "B"}]}},
         "Colour?\nA) red\nB) blue", "A", "M_1"),
    ],
}  # fmt: skip
CASES = [
    pytest.param(name, *case, id=f"{name}-{place}") for name, own in LINES.items() for place, case in enumerate(own)
]


def read(*rows: Any, evaluator: str = "format") -> list[Problem]:
    return Reader(evaluator).read("data.jsonl", "\n".join(map(json.dumps, rows)), "data.jsonl")


def refusal(*rows: Any, evaluator: str = "format") -> str:
    with pytest.raises(GraftError) as caught:
        read(*rows, evaluator=evaluator)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("name", "row", "question", "answer", "problem_id"), CASES)
def test_each_format_is_read_as_it_is_published(
    name: str, row: dict[str, Any], question: str, answer: Any, problem_id: str
) -> None:
    reader = Reader()
    (problem,) = reader.read("data.jsonl", json.dumps(row), "data.jsonl")
    assert reader.formats["data.jsonl"].name == name
    assert (without_context(problem.question), problem.answer) == (question, answer)
    assert problem.problem_id.startswith(problem_id)
    assert problem.evaluator == reader.formats["data.jsonl"].evaluator
    for column, value in problem.fields.items():
        assert row[column] == value
    assert not {"question", "answer", "problem"} & problem.fields.keys()
    assert Problem.model_validate_json(problem.model_dump_json()) == problem


def test_contexts_are_in_front_of_the_question() -> None:
    hotpot, original = read(LINES["HotpotQA"][0][0]), read(LINES["HotpotQA"][1][0])
    assert context(hotpot[0].question) == context(original[0].question)
    assert hotpot[0].question == (
        "Paris: Paris is a city. It is in France.\n\nRome: Rome is older.\n\nQuestion: Where?"
    )  # fmt: skip
    assert context(read(LINES["DROP"][0][0])[0].question) == "Smith ran 3 yards."
    assert hotpot[0].fields == {
        "type": "bridge",
        "level": "easy",
        "supporting_facts": {"title": ["Paris"], "sent_id": [1]},
    }


def test_the_right_choice_of_gpqa_is_anywhere_but_always_in_the_same_place() -> None:
    wrong = {f"Incorrect Answer {number}": f"wrong {number}" for number in (1, 2, 3)}
    rows = [{"Question": f"Which, {n}?", "Correct Answer": "right", **wrong, "Record ID": f"rec{n}"} for n in range(40)]
    problems = read(*rows)
    assert problems == read(*rows)
    assert {problem.answer for problem in problems} == {*"ABCD"}
    assert all(f"\n{problem.answer}) right" in problem.question for problem in problems)


def test_files_that_are_one_json_value() -> None:
    pairs = [{key: row[key] for key in ("question", "answer", "query_id")} for row in [LINES["DROP"][1][0]]]
    nested = {"nfl_1": {"passage": "In March 1999 …", "wiki_url": "w", "qa_pairs": pairs}}
    (drop,) = Reader().read("drop.json", json.dumps(nested, indent=1), "drop.json")
    assert (context(drop.question), drop.answer) == ("In March 1999 …", [["March"]])
    listed = [LINES["HotpotQA"][1][0], {**LINES["HotpotQA"][1][0], "_id": "5a9"}]
    with pytest.raises(GraftError, match=r"^hotpot\.json: item 2: item 1 asks the same; remove one of the two"):
        Reader().read("hotpot.json", json.dumps(listed), "hotpot.json")
    for broken in ({"data": [{"paragraphs": [{"context": "c"}]}]}, {"nfl_1": {"qa_pairs": ["When?"]}}):
        with pytest.raises(GraftError, match=r"^own\.json:1: "):
            Reader().read("own.json", json.dumps(broken), "own.json")


def test_other_columns_are_kept_and_a_named_evaluator_replaces_the_formats() -> None:
    row = {"question": "Capital?", "answer": ["Paris", "paris, France"], "hops": 2, "id": "a", "problem_id": "b"}
    (problem,) = read(row, evaluator="text")
    assert (problem.problem_id, problem.fields) == ("b", {"hops": 2, "id": "a"})
    assert (problem.answer, problem.evaluator) == (["Paris", "paris, France"], "text")
    (mathematical,) = read(LINES["GSM8K"][0][0], evaluator="f1")
    assert mathematical.evaluator == "f1"
    siblings = [
        {"question": "Of Italy?", "answer": "Rome", "hops": 3},
        {"question": "Capital?", "answer": "Bern", "context": "Swiss."},
    ]
    (own,) = read(
        {"question": "Of France?", "answer": "Paris", "context": "Europe.", "siblings": siblings}, evaluator="text"
    )
    assert own.questions == (
        "Europe.\n\nQuestion: Of France?",
        "Europe.\n\nQuestion: Of Italy?",
        "Swiss.\n\nQuestion: Capital?",
    )
    assert [variant.fields for variant in own.variants] == [{}, {"hops": 3}, {}]
    assert [variant.answer for variant in own.variants] == own.answers == ["Paris", "Rome", "Bern"]
    assert own.rotated(1).fields == {"hops": 3}
    assert own.rotated(1).rotated(2).rotated(0).evaluator == "text"
    assert [own.rotated(1).siblings[0].answer, own.rotated(4).answer] == ["Paris", "Rome"]


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else 1


BASE = {"question": "q", "answer": 5}


@pytest.mark.parametrize(("row", "message"), [
    ({**BASE, "note": "\ud800"}, "data.jsonl:1: note: holds half of a surrogate pair"),
    ({**BASE, "note": [float("nan")]}, "data.jsonl:1: note: holds a number that is not finite; write null"),
    ({**BASE, "note": nested(DEEPEST + 1)}, f"data.jsonl:1: note: more than {DEEPEST} levels of lists"),
    ({**BASE, "a": "x", "note": "x" * LONGEST}, f"data.jsonl:1: note: {LONGEST + 6} of "),
    ({**BASE, "n" * 101: 1}, "data.jsonl:1: 'nnnnnnn"),
    ({**BASE, "context": "x" * (LONGEST_CONTEXT + 1)}, f"data.jsonl:1: context: {LONGEST_CONTEXT + 1} characters"),
    ({**BASE, "answer": "Paris"}, "data.jsonl:1: answer: 'Paris' is no number; write a number, or a text that ends in "
     "#### 72, or set problems.evaluator (number here) to another"),
    ({**BASE, "siblings": [{"question": "r", "answer": "x"}]}, "data.jsonl:1: siblings.0.answer: 'x' is no number"),
    ({"problem": "p", "solution": "none"}, r"data.jsonl:1: solution: no closed \boxed{} in it"),
    ({"problem": "", "solution": "none"}, "data.jsonl:1: problem: empty"),
    ({"question": "q", "choices": ["a", "b"], "answer": 2}, "data.jsonl:1: answer: 2 is none of 2 choices"),
    ({"question": "q", "choices": ["a"], "answer": 0}, "data.jsonl:1: choices: a list, not a list of at least two"),
    ({"question": "q", "choices": CHOICES, "answerKey": "D"}, "data.jsonl:1: answerKey: 'D' is none of the labels"),
    ({"question": "q", "choices": CHOICES, "answerKey": "D", "answer": 5}, "data.jsonl:1: choices: an object, not"),
    ({"question": "q", "answer": "a", "context": 5, "supporting_facts": []}, "data.jsonl:1: context: a number"),
    ({"passage": "p", "question": "q", "answer": {}}, "data.jsonl:1: answer: no span"),
])  # fmt: skip
def test_a_line_that_does_not_fit_is_refused_with_file_line_and_column(row: dict[str, Any], message: str) -> None:
    assert refusal(row).startswith(message)


def test_a_later_line_without_a_column_of_the_format_is_refused() -> None:
    first = LINES["MMLU"][0][0]
    assert refusal(first, {"question": "q", "answer": 1}) == "data.jsonl:2: choices: missing; every line of MMLU has it"


def test_any_object_is_a_problem_or_an_error_of_one_line() -> None:
    """Every format's reader, on lines that have its columns with values of other kinds."""
    values = [None, True, 5, "", "x", [], ["a", "b"], [1], {}, {"text": "x", "label": ["A"]}, {"spans": 5}]
    for own in LINES.values():
        for row, *_ in own:
            for column in row:
                for value in values:
                    try:
                        read({**row, column: value})
                    except GraftError as error:
                        assert str(error).startswith("data.jsonl:1: ")  # noqa: PT017
                        assert "\n" not in str(error)  # noqa: PT017
    assert {each.name for each in FORMATS} >= LINES.keys()
