"""Lines of public data sets that are not read: the name, and how to convert them."""

import json

from tasks.problems.columns import ColumnError
from tasks.problems.row import Columns

_STDIN = "its tests are of programs that read standard input, and Graft's call a function: write entry_point and tests"

_FOREIGN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("verl", ("prompt", "reward_model"), "write the prompt's last content as question, ground_truth as answer"),
    ("Alpaca", ("instruction", "output"), "write instruction and input as question, output as answer"),
    ("preferences", ("chosen", "rejected"), "it has no answer that can be checked; write question and answer"),
    ("APPS", ("question", "input_output"), _STDIN),
    ("LiveCodeBench", ("question_content", "public_test_cases"), _STDIN),
    ("CodeContests", ("description", "public_tests"), _STDIN),
    ("Codeforces", ("description", "official_tests"), _STDIN),
    (
        "LeetCode",
        ("entry_point", "test", "prompt"),
        "write a function, not a method, as entry_point, and tests",
    ),
    ("CRUXEval", ("code", "input", "output"), "write the code and the input as question, output as answer"),
    ("MultiPL-E", ("prompt", "tests", "language"), "its tests are not Python; take HumanEval or MBPP"),
    (
        "SWE-bench",
        ("repo", "base_commit", "patch"),
        "write functions with question, entry_point and tests",
    ),
    ("OlympiadBench", ("question", "final_answer"), "write the text in final_answer as answer"),
    ("chats", ("messages",), "write the user's message as question, the reply's result as answer"),
    ("chats", ("conversations",), "write the user's message as question, the reply's result as answer"),
    ("Natural Questions", ("document", "annotations"), "write question.text as question, the short answers as answer"),
)
"""(name, columns that a line has, what to do)."""


def refuse_foreign(row: Columns) -> None:
    """Raise ColumnError for a line that has no question and answer, and whose columns are those of no known format."""
    lacking = [name for name in ("question", "answer") if name not in row]
    if not lacking:
        return
    for name, columns, remedy in _FOREIGN:
        if all(column in row for column in columns):
            raise ColumnError(columns[-1], f"this is the format of {name}; {remedy}")
    for name, value in row.items():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            command = f"jq -c '.[{json.dumps(name)}][]' FILE > NEW.jsonl"
            raise ColumnError(name, f"a list of objects; if they are the lines, write them to a file: {command}")
    names = ", ".join([ascii(name)[:40] for name in row][:12]) or "no column"
    raise ColumnError(lacking[0], f"missing; the line has {names}: write a question and an answer")
