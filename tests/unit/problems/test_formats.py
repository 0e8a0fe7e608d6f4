"""Lines of public data sets, with the columns that their pages and the Hugging Face hub publish: read, or refused."""

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
SHOWN_PARAGRAPHS = "Paris: Paris is a city. It is in France.\n\nRome: Rome is older."
MUSIQUE = [
    {"idx": 0, "title": "A", "paragraph_text": "x.", "is_supporting": True},
    {"idx": 1, "title": "B", "paragraph_text": "y.", "is_supporting": False},
]
DATE = {"day": "", "month": "", "year": ""}
COLOURS = ["red", "blue", "green"]
CHOICES = {"text": COLOURS, "label": ["A", "B", "C"]}
SHOWN = "Colour?\nA) red\nB) blue\nC) green"
HUB = {"id": "5a7", "question": "Where?", "answer": "France", "type": "bridge", "level": "easy",
       "supporting_facts": {"title": ["Paris"], "sent_id": [1]},
       "context": {"title": ["Paris", "Rome"], "sentences": [body for _, body in PARAGRAPHS]}}  # fmt: skip
HOTPOT = {**HUB, "_id": "5a8", "supporting_facts": [["Paris", 1]], "context": PARAGRAPHS}
del HOTPOT["id"]
DROP = {"passage": "In March 1999 …", "question": "When?", "query_id": "q2",
        "answer": {"number": "", "date": {**DATE, "month": "March"}, "spans": []},
        "validated_answers": [{"number": "3", "date": DATE, "spans": []}]}  # fmt: skip
MMLU = {"question": "Colour?", "subject": "art", "choices": [*COLOURS, "grey"], "answer": 1}

LINES: list[tuple[str, dict[str, Any], str, str, Any]] = [  # format, line, context, question, answer
    ("GSM8K", {"question": "2 and 3?", "answer": "2+3=<<2+3=5>>5\n#### 5"}, "", "2 and 3?", 5),
    ("MATH", {"problem": "Half?", "level": "Level 2", "type": "Algebra", "solution": r"It is $\boxed{\frac{1}{2}}$."},
     "", "Half?", r"\frac{1}{2}"),
    ("MATH", {"problem": "Half?", "solution": "…", "answer": "0.5", "subject": "Algebra", "level": 2,
              "unique_id": "test/algebra/7.json"}, "", "Half?", "0.5"),
    ("MATH", {"problem": "Root?", "solution": "…", "answer": r"\sqrt{2}"}, "", "Root?", r"\sqrt{2}"),
    ("AIME", {"id": 60, "problem": "Find m+n.", "solution": "…", "answer": "204", "url": "u", "year": "2024"},
     "", "Find m+n.", 204),
    ("AIME", {"ID": "2024-II-4", "Problem": "Find it.", "Solution": "…", "Answer": 33}, "", "Find it.", 33),
    ("AIME", {"problem": "Find.", "answer": "070", "id": "0"}, "", "Find.", 70),
    ("HotpotQA", HUB, SHOWN_PARAGRAPHS, "Where?", "France"), ("HotpotQA", HOTPOT, SHOWN_PARAGRAPHS, "Where?", "France"),
    ("DROP", {"section_id": "nfl_1", "query_id": "q1", "passage": "Smith ran 3 yards.", "question": "How far?",
              "answers_spans": {"spans": ["3 yards", "3"], "types": ["span", "number"]}},
     "Smith ran 3 yards.", "How far?", [["3"], ["3 yards"]]),
    ("DROP", DROP, "In March 1999 …", "When?", [["March"], ["3"]]),
    ("MMLU", MMLU, "", f"{SHOWN}\nD) grey", "B"),
    ("MMLU", {"question": "Colour?", "choices": COLOURS, "answer": 2.0}, "", SHOWN, "C"),
    ("MMLU", {"question": "Colour?", "choices": COLOURS, "answer": "c "}, "", SHOWN, "C"),
    ("MMLU", {"question": "Colour?", "choices": COLOURS, "answer": " green\n"}, "", SHOWN, "C"),
    ("MMLU", {"question": "Letter?", "choices": ["a", "b"], "answer": "A "}, "", "Letter?\nA) a\nB) b", "A"),
    ("ARC", {"id": "Mercury_7", "question": "Colour?", "choices": CHOICES, "answerKey": "C"}, "", SHOWN, "C"),
    ("ARC", {"question": "Colour?", "choices": {**CHOICES, "label": ["1", "2", "3 "]}, "answerKey": " 3"},
     "", SHOWN, "C"),
    ("ARC", {"id": "M_1", "answerKey": "A", "question": {
        "stem": "Colour?", "choices": [{"text": "red", "label": "A"}, {"text": "blue", "label": "B"}]}},
     "", "Colour?\nA) red\nB) blue", "A"),
    ("MMLU-Pro", {"question_id": 7, "question": "Colour?", "options": COLOURS, "answer": "B", "answer_index": 1,
                  "cot_content": "", "category": "art", "src": "s"}, "", SHOWN, "B"),
    ("AQuA", {"question": "Colour?", "options": ["A)red", "B)blue", "C)green"], "rationale": "…", "correct": "C"},
     "", SHOWN, "C"),
    ("AGIEval", {"passage": "P.", "question": "Colour?", "options": ["(A)red", "(B)blue", "(C)green"], "label": "C",
                 "other": None, "answer": None}, "P.", SHOWN, "C"),
    ("MedQA", {"question": "Colour?", "answer": "blue", "options": dict(zip("ABC", COLOURS, strict=True)),
               "meta_info": "step1", "answer_idx": "B"}, "", SHOWN, "B"),
    ("RACE", {"example_id": "high1.txt", "article": "P.", "question": "Colour?", "options": COLOURS, "answer": "A"},
     "P.", SHOWN, "A"),
    ("OpenBookQA", {"id": "7-980", "question_stem": "Colour?", "answerKey": "C", "choices": CHOICES}, "", SHOWN, "C"),
    ("LogiQA", {"context": "P.", "query": "Colour?", "options": COLOURS, "correct_option": 1}, "P.", SHOWN, "B"),
    ("HellaSwag", {"ind": 4, "activity_label": "Paint", "ctx": "Colour?", "endings": COLOURS, "label": "2"},
     "", SHOWN, "C"),
    ("PIQA", {"goal": "Colour?", "sol1": "red", "sol2": "blue", "label": 1}, "", "Colour?\nA) red\nB) blue", "B"),
    ("SIQA", {"context": "P.", "question": "Colour?", "answerA": "red", "answerB": "blue", "answerC": "green",
              "label": "1"}, "P.", SHOWN, "A"),
    ("WinoGrande", {"sentence": "The _ is red.", "option1": "cup", "option2": "jug", "answer": "2"},
     "", "The _ is red.\nA) cup\nB) jug", "B"),
    ("C-Eval", {"id": 0, "question": "Colour?", "A": "red", "B": "blue", "C": "green", "D": "grey", "answer": "D"},
     "", f"{SHOWN}\nD) grey", "D"),
    ("BoolQ", {"question": "is it", "passage": "P.", "answer": True}, "P.", "is it", ["yes", "true"]),
    ("DROP as prompts", {"context": "Passage: P.\n\nQuestion: How many?\n\nAnswer:", "completion": " 20",
                         "ref_text": "20|twenty", "id": 1}, "P.", "How many?", [["20"], ["twenty"]]),
    ("MuSiQue", {"id": "2hop__1_2", "paragraphs": MUSIQUE, "question": "Who?", "answer": "Bob",
                 "answer_aliases": ["Robert"], "answerable": True}, "A: x.\n\nB: y.", "Who?", ["Bob", "Robert"]),
    ("SQuAD", {"id": "1", "title": "t", "context": "P.", "question": "Where?",
               "answers": {"text": ["here", "here"], "answer_start": [1, 1]}}, "P.", "Where?", ["here"]),
    ("SQuAD", {"context": "P.", "question": "Where?", "answers": ["here", "there"]}, "P.", "Where?", ["here", "there"]),
    ("TriviaQA", {"question": "Who?", "question_id": "tc_1", "answer": {
        "value": "David Niven", "aliases": ["David Niven", "Niven"], "normalized_aliases": ["niven"]}},
     "", "Who?", ["David Niven", "Niven"]),
    ("SVAMP", {"ID": "chal-1", "Body": "Ann has 8 pens", "Question": "How many?", "Answer": "8", "Type": "x"},
     "", "Ann has 8 pens. How many?", 8),
    ("question and answer", {"question": "How many degrees?", "answer": r"336^\circ"}, "", "How many degrees?", 336),
]  # fmt: skip
IDS = {"test-algebra-7.json", "60", "2024-II-4", "0", "5a7", "5a8", "q1", "q2", "Mercury_7", "M_1", "7-980", "tc_1"}


def read(*rows: Any, evaluator: str = "format") -> list[Problem]:
    return Reader(evaluator).read("data.jsonl", "\n".join(map(json.dumps, rows)), "data.jsonl")


def refusal(*rows: Any, evaluator: str = "format") -> str:
    with pytest.raises(GraftError) as caught:
        read(*rows, evaluator=evaluator)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("name", "row", "passage", "question", "answer"), LINES)
def test_each_format_is_read_as_it_is_published(
    name: str, row: dict[str, Any], passage: str, question: str, answer: Any
) -> None:
    reader = Reader()
    (problem,) = reader.read("data.jsonl", json.dumps(row), "data.jsonl")
    assert reader.formats["data.jsonl"].name == name
    assert (context(problem.question), without_context(problem.question), problem.answer) == (passage, question, answer)
    assert problem.evaluator == reader.formats["data.jsonl"].evaluator
    for column, value in problem.fields.items():
        assert row[column] == value
    assert not {"question", "problem"} & problem.fields.keys()
    assert Problem.model_validate_json(problem.model_dump_json()) == problem


def test_a_line_names_its_problem_and_other_columns_are_kept() -> None:
    problems = [problem for _, row, *_ in LINES for problem in read(row)]
    assert {problem.problem_id for problem in problems if problem.problem_id[:2] != "q-"} >= IDS
    assert read(HUB)[0].fields == {column: HUB[column] for column in ("type", "level", "supporting_facts")}


def test_the_right_choice_of_gpqa_is_anywhere_but_always_in_the_same_place() -> None:
    wrong = {f"Incorrect Answer {number}": f"wrong {number}" for number in (1, 2, 3)}
    rows = [{"Question": f"Which, {n}?", "Correct Answer": "right", **wrong, "Record ID": f"rec{n}"} for n in range(40)]
    problems = read(*rows)
    assert problems == read(*rows)
    assert {problem.answer for problem in problems} == {*"ABCD"}
    assert all(f"\n{problem.answer}) right" in problem.question for problem in problems)


def test_files_that_are_one_json_value() -> None:
    def read_file(value: Any) -> list[Problem]:
        return Reader().read("own.json", json.dumps(value, indent=1), "own.json")

    pairs = [{key: DROP[key] for key in ("question", "answer", "query_id")}]
    (drop,) = read_file({"nfl_1": {"passage": "In March 1999 …", "wiki_url": "w", "qa_pairs": pairs}})
    assert (context(drop.question), drop.answer) == ("In March 1999 …", [["March"]])
    asked = [{"id": "1", "question": "Where?", "answers": [{"text": "here", "answer_start": 3}]}]
    (squad,) = read_file({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "P.", "qas": asked}]}]})
    assert (squad.question, squad.answer) == ("P.\n\nQuestion: Where?", ["here"])
    with pytest.raises(GraftError, match=r"^own\.json: item 2: item 1 asks the same; remove one of the two"):
        read_file([HOTPOT, {**HOTPOT, "_id": "5a9"}])
    for broken in ({"data": [{"paragraphs": [{"context": "c"}]}]}, {"nfl_1": {"qa_pairs": ["When?"]}}):
        with pytest.raises(GraftError, match=r"^own\.json:1: "):
            read_file(broken)


def test_a_named_evaluator_replaces_the_formats_and_siblings_have_their_own_columns() -> None:
    row = {"question": "Capital?", "answer": ["Paris", "paris, France"], "hops": 2, "id": "a", "problem_id": "b"}
    (problem,) = read(row, evaluator="text")
    assert (problem.problem_id, problem.fields) == ("b", {"hops": 2, "id": "a"})
    assert (problem.answer, problem.evaluator) == (["Paris", "paris, France"], "text")
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
    ({**BASE, "note": "\ud800"}, "note: holds half of a surrogate pair"),
    ({**BASE, "note": [float("nan")]}, "note: holds a number that is not finite; write null"),
    ({**BASE, "note": nested(DEEPEST + 1)}, f"note: more than {DEEPEST} levels of lists"),
    ({**BASE, "a": "x", "note": "x" * LONGEST}, f"note: {LONGEST + 6} of "),
    ({**BASE, "n" * 101: 1}, "'nnnnnnn"),
    ({**BASE, "context": "x" * (LONGEST_CONTEXT + 1)}, f"context: {LONGEST_CONTEXT + 1} characters"),
    ({**BASE, "answer": "Paris"}, "answer: 'Paris' is no number; write a number, or a text that ends in "
     "#### 72, or set problems.evaluator (number here) to another"),
    ({**BASE, "siblings": [{"question": "r", "answer": "x"}]}, "siblings.0.answer: 'x' is no number"),
    ({**BASE, "siblings": [{"question": "Q ", "answer": 2}]}, "siblings.0.question: asks"),
    ({**BASE, "paraphrases": "r"}, "paraphrases: a text, not a list of texts"),
    ({**BASE, "paraphrases": ["r", ""]}, "paraphrases: empty"),
    ({**BASE, "context": "c", "distractor_contexts": "d"}, "distractor_contexts: a text, not a list"),
    ({**HOTPOT, "paraphrases": [1]}, "paraphrases: a list, not a list of texts"),
    ({"problem": "p", "solution": "none"}, r"solution: no closed \boxed{} in it"),
    ({"problem": "", "solution": "none"}, "problem: empty"),
    ({"question": "q", "choices": ["a", "b"], "answer": 2}, "answer: 2 is none of 2 choices"),
    ({"question": "q", "choices": ["a"], "answer": 0}, "choices: a list, not a list of at least two"),
    ({"question": "q", "choices": CHOICES, "answerKey": "D"}, "answerKey: 'D' is none of the labels"),
    ({"question": "q", "choices": CHOICES, "answerKey": "D", "answer": 5}, "choices: an object, not"),
    ({"question": "q", "answer": "a", "context": 5, "supporting_facts": []}, "context: a number"),
    ({"passage": "p", "question": "q", "answer": {}}, "answer: no span"),
    ({"prompt": [], "reward_model": {"ground_truth": "2"}}, "reward_model: this is the format of verl; write"),
    ({"instruction": "Add", "input": "1 and 1", "output": "2"}, "output: this is the format of Alpaca; write"),
    ({"question": "q", "final_answer": ["2"]}, "final_answer: this is the format of OlympiadBench; write"),
    ({"messages": [{"role": "user", "content": "q"}]}, "messages: this is the format of chats; write"),
    ({"data": [{"question": "q", "answer": 2}]}, "data: a list of objects; if they are the lines, write them"),
    ({"input": "q", "target": "2"}, "question: missing; the line has 'input', 'target': write a"),
    ({"question": "q", "answer": ["Peter", "Pete"]}, "answer: a list, not a number; write a number, or a text "
     "that ends in #### 72, or set problems.evaluator to text or f1"),
    ({"question": "q", "context": "c", "answers": {"text": []}}, "answers: empty: the text has no answer"),
    ({"id": "1", "question": "q", "paragraphs": MUSIQUE, "answer": "", "answerable": False}, "answerable: false"),
    ({"question": "q", "choices": ["a", "b"], "answer": "D"}, "answer: D is none of 2 choices, A to B"),
    ({"question": "q", "choices": ["a", "a", "b"], "answer": 2}, "choices: choices A and B are both 'a'"),
    ({"question": "q", "choices": ["B", "A"], "answer": "A"}, "answer: 'A' is a letter and the text of another choice"),
    ({"question": "q", "choices": ["b", "a"], "answer": "a "}, "answer: 'a' is a letter and the text of another"),
    ({"question": "q", "choices": ["b", "a"], "answer": "(A)"}, "answer: '(A)' is a letter and the text of another"),
    ({"question": "q", "choices": ["a", "b"], "answer": True}, "answer: True is none of the 2 choices"),
    ({"question": "q", "options": ["a", "b"], "answer": "B", "answer_index": 0}, "answer_index: 0, but answer is B"),
    ({"ctx": "q", "endings": ["a", "b"], "label": "2"}, "label: 2 is none of 2 choices, which are counted from 0"),
    ({"question": "1\0?", "answer": 2}, "question: holds a NUL character (U+0000)"),
    ({"question": "q", "context": ["a\0"], "answer": 2}, "context: holds a NUL character"),
    ({"question": "q", "context": "\ud800", "answer": 2, "id": "a"}, "context: holds half of a surrogate pair"),
    ({"question": "q", "choices": ["a", "b\0"], "answer": 1}, "choices: holds a NUL character"),
])  # fmt: skip
def test_a_line_that_cannot_be_read_says_what_it_is(row: dict[str, Any], message: str) -> None:
    assert refusal(row).startswith(f"data.jsonl:1: {message}")


def test_a_later_line_without_a_column_of_the_format_is_refused() -> None:
    assert refusal(MMLU, {"question": "q", "answer": 1}) == "data.jsonl:2: choices: missing; every line of MMLU has it"


def test_a_letter_has_to_be_among_the_choices_that_the_question_shows() -> None:
    question = "Colour?\nA) red\nB) blue"
    assert read({"question": question, "answer": "B"}, evaluator="choice")[0].answer == "B"
    assert read({"question": "Colour? (A) red (B) blue", "answer": "a"}, evaluator="choice")[0].answer == "A"
    for text, letter in ((question, "D"), ("Colour?", "A")):
        message = refusal({"question": text, "answer": letter, "colours": COLOURS}, evaluator="choice")
        assert message.startswith(f"data.jsonl:1: answer: the question shows no choice {letter}; write all of them")


def test_any_object_is_a_problem_or_an_error_of_one_line() -> None:
    """Every format's reader, on lines that have its columns with values of other kinds."""
    values = [None, True, 5, "", "x", [], ["a", "b"], [1], {}, {"text": "x", "label": ["A"]}, {"spans": 5}]
    for changed in (row | {column: value} for _, row, *_ in LINES for column in row for value in values):
        try:
            read(changed)
        except GraftError as error:
            assert str(error).startswith("data.jsonl:1: ")  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
    assert {each.name for each in FORMATS} >= {name for name, *_ in LINES} - {"question and answer"}
