"""More lines of public data sets: read with all that the question needs, or refused by name; files of other kinds."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest

from tasks.errors import GraftError
from tasks.problems.files import problem_files, problem_text
from tasks.problems.jsonl import Reader
from tasks.programs.operators.builtin import context, without_context
from tasks.records.problems import Problem

COLOURS = ["red", "blue", "green"]
SHOWN = "Colour?\nA) red\nB) blue\nC) green"
PARAGRAPHS = [
    {"idx": 0, "title": "A", "paragraph_text": "x.", "is_supporting": True},
    {"idx": 1, "title": "B", "paragraph_text": "y.", "is_supporting": False},
]

LINES: list[tuple[str, dict[str, Any], str, str, Any]] = [  # format, line, context, question, answer
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
    ("OpenBookQA", {"id": "7-980", "question_stem": "Colour?", "answerKey": "C",
                    "choices": {"text": COLOURS, "label": ["A", "B", "C"]}}, "", SHOWN, "C"),
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
    ("MMLU", {"question": "Colour?", "choices": COLOURS, "answer": 2.0}, "", SHOWN, "C"),
    ("MMLU", {"question": "Colour?", "choices": COLOURS, "answer": "c "}, "", SHOWN, "C"),
    ("MMLU", {"question": "Colour?", "choices": COLOURS, "answer": " green\n"}, "", SHOWN, "C"),
    ("MMLU", {"question": "Letter?", "choices": ["a", "b"], "answer": "A "}, "", "Letter?\nA) a\nB) b", "A"),
    ("ARC", {"question": "Colour?", "choices": {"text": COLOURS, "label": ["1", "2", "3 "]}, "answerKey": " 3"},
     "", SHOWN, "C"),
    ("BoolQ", {"question": "is it", "passage": "P.", "answer": True}, "P.", "is it", ["yes", "true"]),
    ("DROP as prompts", {"context": "Passage: P.\n\nQuestion: How many?\n\nAnswer:", "completion": " 20",
                         "ref_text": "20|twenty", "id": 1}, "P.", "How many?", [["20"], ["twenty"]]),
    ("MuSiQue", {"id": "2hop__1_2", "paragraphs": PARAGRAPHS, "question": "Who?", "answer": "Bob",
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


def read(*rows: Any, evaluator: str = "format") -> list[Problem]:
    return Reader(evaluator).read("data.jsonl", "\n".join(map(json.dumps, rows)), "data.jsonl")


def refusal(*rows: Any, evaluator: str = "format") -> str:
    return told("\n".join(map(json.dumps, rows)), evaluator)


def told(text: str, evaluator: str = "format") -> str:
    with pytest.raises(GraftError) as caught:
        Reader(evaluator).read("data.jsonl", text, "data.jsonl")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("name", "row", "passage", "question", "answer"), LINES)
def test_a_public_line_is_read_whole(name: str, row: dict[str, Any], passage: str, question: str, answer: Any) -> None:
    reader = Reader()
    (problem,) = reader.read("data.jsonl", json.dumps(row), "data.jsonl")
    assert reader.formats["data.jsonl"].name == name
    assert (context(problem.question), without_context(problem.question)) == (passage, question)
    assert problem.answer == answer


def test_squad_as_published_is_read() -> None:
    asked = [{"id": "1", "question": "Where?", "answers": [{"text": "here", "answer_start": 3}]}]
    text = json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "P.", "qas": asked}]}]})
    (problem,) = Reader().read("squad.json", text, "squad.json")
    assert (problem.question, problem.answer) == ("P.\n\nQuestion: Where?", ["here"])


@pytest.mark.parametrize(("row", "message"), [
    ({"prompt": [], "reward_model": {"ground_truth": "2"}}, "reward_model: this is the format of verl; write"),
    ({"instruction": "Add", "input": "1 and 1", "output": "2"}, "output: this is the format of Alpaca; write"),
    ({"question": "q", "final_answer": ["2"]}, "final_answer: this is the format of OlympiadBench; write"),
    ({"messages": [{"role": "user", "content": "q"}]}, "messages: this is the format of chats; write"),
    ({"data": [{"question": "q", "answer": 2}]}, "data: a list of objects; if they are the lines, write them"),
    ({"input": "q", "target": "2"}, "question: missing; the line has 'input', 'target': write a"),
    ({"question": "q", "answer": ["Peter", "Pete"]}, "answer: a list, not a number; write a number, or a text "
     "that ends in #### 72, or set problems.evaluator to text or f1"),
    ({"question": "q", "context": "c", "answers": {"text": []}}, "answers: empty: the text has no answer"),
    ({"id": "1", "question": "q", "paragraphs": PARAGRAPHS, "answer": "", "answerable": False}, "answerable: false"),
    ({"question": "q", "choices": ["a", "b"], "answer": "D"}, "answer: D is none of 2 choices, A to B"),
    ({"question": "q", "choices": ["a", "a", "b"], "answer": 2}, "choices: choices A and B are both 'a'"),
    ({"question": "q", "choices": ["B", "A"], "answer": "A"}, "answer: 'A' is a letter and the text of another choice"),
    ({"question": "q", "choices": ["b", "a"], "answer": "a "}, "answer: 'a' is a letter and the text of another"),
    ({"question": "q", "choices": ["b", "a"], "answer": "A"}, "answer: 'A' is a letter and the text of another choice"),
    ({"question": "q", "choices": ["b", "a"], "answer": "(A)"}, "answer: '(A)' is a letter and the text of another"),
    ({"question": "q", "choices": ["a", "b"], "answer": True}, "answer: True is none of the 2 choices"),
    ({"question": "q", "options": ["a", "b"], "answer": "B", "answer_index": 0}, "answer_index: 0, but answer is B"),
    ({"ctx": "q", "endings": ["a", "b"], "label": "2"}, "label: 2 is none of 2 choices, which are counted from 0"),
    ({"question": "1\0?", "answer": 2}, "question: holds a NUL character (U+0000)"),
    ({"question": "q", "context": ["a\0"], "answer": 2}, "context: holds a NUL character"),
    ({"question": "q", "context": "\ud800", "answer": 2, "id": "a"}, "context: holds half of a surrogate pair"),
    ({"question": "q", "choices": ["a", "b\0"], "answer": 1}, "choices: holds a NUL character"),
    ({"question": "q", "answer": 2, "siblings": [{"question": "Q ", "answer": 2}]}, "siblings.0.question: asks"),
])  # fmt: skip
def test_a_line_that_cannot_be_read_says_what_it_is(row: dict[str, Any], message: str) -> None:
    assert refusal(row).startswith(f"data.jsonl:1: {message}")


def test_a_letter_has_to_be_among_the_choices_that_the_question_shows() -> None:
    question = "Colour?\nA) red\nB) blue"
    assert read({"question": question, "answer": "B"}, evaluator="choice")[0].answer == "B"
    assert read({"question": "Colour? (A) red (B) blue", "answer": "a"}, evaluator="choice")[0].answer == "A"
    for text, letter in ((question, "D"), ("Colour?", "A")):
        message = refusal({"question": text, "answer": letter, "colours": COLOURS}, evaluator="choice")
        assert message.startswith(f"data.jsonl:1: answer: the question shows no choice {letter}; write all of them")


@pytest.mark.parametrize("other", ["what is 1 plus 1?", "What is  1 plus\n1? ", "What is 1 plus 1?"])
def test_the_same_question_again_is_refused_whatever_its_case_and_blanks(other: str) -> None:
    rows = [{"question": "What is 1 plus 1?", "answer": 2}, {"question": other, "answer": 3}]
    assert refusal(*rows) == "data.jsonl:2: line 1 asks the same; remove one of the two"


def test_a_key_that_occurs_twice_is_refused() -> None:
    message = "data.jsonl:1: answer: twice in one object; remove one of the two"
    assert told('{"question": "1?", "answer": 2, "answer": 3}') == message
    assert told('{"question": "1?", "answer": 2, "note": {"answer": 1, "answer": 1}}') == message
    assert told('[{"question": "1?", "answer": 2, "answer": 2}]').startswith("data.jsonl: answer: twice")


def test_what_a_text_that_is_no_json_lines_may_be() -> None:
    assert "write one object on each line: jq" in told('{\n  "question": "q"\n}')
    assert "if this is a table, convert it: python -c" in told("question,answer\n1?,2")
    assert "run: git lfs pull" in told("version https://git-lfs.github.com/spec/v1\noid sha256:0")
    assert "a page of HTML" in told("<!DOCTYPE html>\n<html>")


def test_a_file_of_another_kind_is_named_with_the_command_that_converts_it(tmp_path: Path) -> None:
    rows = [{"question": "1?", "answer": 2}, {"question": "2?", "answer": 3}]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pandas.DataFrame(rows).to_parquet(tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_bytes(lines.encode("utf-16"))
    for name, kind in (("a.jsonl.gz", "compressed with gzip"), ("b.parquet", "a Parquet file"), ("c.jsonl", "encoded")):
        with pytest.raises(GraftError, match=f"^{name}: {kind}.*, not JSON lines; convert it: ") as caught:
            problem_text(name, tmp_path / name)
        before = {*tmp_path.iterdir()}
        command = str(caught.value).partition("convert it: ")[2].replace("python", sys.executable, 1)
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        (made,) = {*tmp_path.iterdir()} - before
        assert [problem.answer for problem in Reader().read(name, made.read_text(encoding="utf-8"), name)] == [2, 3]
        made.unlink()
    (tmp_path / "d").mkdir()
    (tmp_path / "d/train.parquet").write_bytes(b"PAR1")
    with pytest.raises(GraftError, match=r"no \*\.jsonl in the folder d; .* 'train\.parquet', run graft"):
        problem_files(tmp_path, "d")
