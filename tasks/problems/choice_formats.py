"""Formats of questions with choices: these are shown below the question, the answer is the letter of one."""

import random
import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase
from typing import Any

from tasks.evaluators.number import kind_of
from tasks.problems.row import ColumnError, Columns, Format, Row, check_text, in_context, needs
from tasks.seeds import derive_seed

_LETTER = re.compile(r"[\s(]*([A-Za-z])[\s).:]*")
_LABEL = re.compile(r"\s*\(?([A-Z])[).:]\s*")


def _listed(
    name: str, question: str, choices: str | Sequence[str], key: str, first: int | None = None, context: str = ""
) -> Format:
    """A format with these columns.

    `choices`: a list, an object with a text for each letter, or one column for each. `first`: number of the first
    choice, where keys are numbers, also as texts. `context`: a text that may stand in front of the question, and that
    every line of RACE and ReClor has.
    """
    names = [choices] if isinstance(choices, str) else list(choices)

    def read(row: Columns) -> Row:
        given = row[names[0]] if isinstance(choices, str) else [row[name] for name in names]
        if isinstance(given, dict) and set(given) <= {*ascii_uppercase}:
            given = [given[letter] for letter in sorted(given)]
        texts = _texts(names[0], given)
        shown = _with_choices(question, row[question], texts)
        if context and row.get(context):
            shown = in_context(check_text(context, row[context]), shown)
        letter = _letter(key, row[key] if first is None else _number_of(row[key]), texts, first or 0)
        if "answer_index" in row and row["answer_index"] != ascii_uppercase.index(letter):
            raise ColumnError("answer_index", f"{row['answer_index']}, but {key} is {letter}; fix the line")
        return Row(shown, letter, key)

    needed = (question, *names, key, *([context] if name in ("RACE", "ReClor") else []))
    return Format(name, "choice", needs(*needed), read)


def _arc(row: Columns) -> Row:
    asked = "question_stem" if "question_stem" in row else "question"
    question = row[asked]
    if isinstance(question, dict):  # as published
        listed = question.get("choices") or []
        texts, labels = [each.get("text") for each in listed], [each.get("label") for each in listed]
        stem = question.get("stem")
    else:
        texts, labels, stem = row["choices"].get("text"), row["choices"].get("label"), question
    labels = [str(label).strip().upper() for label in labels or ()]
    key = str(row["answerKey"]).strip().upper()
    if key not in labels:
        raise ColumnError("answerKey", f"{row['answerKey']!r} is none of the labels {labels}; fix the line")
    choices = _texts("choices", texts)
    answer = _letter("answerKey", labels.index(key), choices)  # some lines count 1 to 4
    return Row(_with_choices(asked, stem, choices), answer, "answerKey")


def _shuffled(question: str, right: str, wrong: Sequence[str]) -> Callable[[Columns], Row]:
    """A reader of lines whose right and wrong choices have columns of their own."""

    def read(row: Columns) -> Row:
        asked, choices = check_text(question, row[question]), _texts(right, [row[name] for name in (right, *wrong)])
        order = list(range(len(choices)))
        random.Random(derive_seed("problems", "choices", asked)).shuffle(order)
        shown = _with_choices(question, asked, [choices[place] for place in order])
        return Row(shown, ascii_uppercase[order.index(0)], right)

    return read


def _with_choices(column: str, question: Any, choices: Sequence[str]) -> str:
    lines = (f"{letter}) {choice}" for letter, choice in zip(ascii_uppercase, choices, strict=False))
    return "\n".join([check_text(column, question), *lines])


def _letter(column: str, key: Any, choices: Sequence[str], first: int = 0) -> str:
    """The letter of a key: a number, a letter, or the text of a choice. Raises ColumnError for another."""
    count = min(len(choices), len(ascii_uppercase))
    if isinstance(key, float) and key.is_integer():  # a column of integers in which one is missing
        key = int(key)
    key = key.strip() if isinstance(key, str) else key
    if isinstance(key, str) and (letter := _LETTER.fullmatch(key)):
        place = ascii_uppercase.index(letter[1].upper())
        if any(text.upper() == letter[1].upper() or text == key for text in [*choices[:place], *choices[place + 1 :]]):
            raise ColumnError(column, f"{key!r} is a letter and the text of another choice; write the letter's number")
    elif isinstance(key, str) and key in choices:
        place = choices.index(key)
    elif isinstance(key, int) and not isinstance(key, bool):
        place = key - first
    else:
        raise ColumnError(column, f"{key!r:.40} is none of the {count} choices; write its letter or number")
    if not 0 <= place < count:
        counted = (
            f", which are counted from {first}" if isinstance(key, int) else f", A to {ascii_uppercase[count - 1]}"
        )
        raise ColumnError(column, f"{key} is none of {count} choices{counted}; fix the line")
    return ascii_uppercase[place]


def _number_of(value: Any) -> Any:
    """The number of a text of digits; else the value."""
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,2}", value.strip()) else value


def _texts(column: str, values: Any) -> list[str]:
    """The choices, without letters in front. Raises ColumnError for fewer than two, and for equal ones."""
    if not isinstance(values, list) or len(values) < 2:
        raise ColumnError(column, f"{kind_of(values)}, not a list of at least two texts; fix the line")
    texts = [check_text(column, str(value) if isinstance(value, int | float) else value) for value in values]
    labels = [_LABEL.match(text) for text in texts]
    if all(label and label[1] == letter for label, letter in zip(labels, ascii_uppercase, strict=False)):
        texts = [check_text(column, text[label.end() :]) for text, label in zip(texts, labels, strict=True) if label]
    for place, text in enumerate(texts):
        if text in texts[:place]:
            twice = f"{ascii_uppercase[texts.index(text)]} and {ascii_uppercase[place]}"
            raise ColumnError(column, f"choices {twice} are both {text!r:.40}; change one or remove the line")
    return texts


_GPQA = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
_SCIQ = ("distractor1", "distractor2", "distractor3")
CHOICE_FORMATS = (
    _listed("MMLU", "question", "choices", "answer"),
    Format("ARC", "choice", needs("question", "answerKey"), _arc),
    Format("OpenBookQA", "choice", needs("question_stem", "answerKey"), _arc),
    _listed("RACE", "question", "options", "answer", context="article"),
    _listed("MedQA", "question", "options", "answer_idx"),
    _listed("AQuA", "question", "options", "correct"),
    _listed("AGIEval", "question", "options", "label", context="passage"),
    _listed("MMLU-Pro", "question", "options", "answer"),
    _listed("LogiQA", "query", "options", "correct_option", 0, "context"),
    _listed("ReClor", "question", "answers", "label", 0, "context"),
    _listed("HellaSwag", "ctx", "endings", "label", 0),
    _listed("PIQA", "goal", ("sol1", "sol2"), "label", 0),
    _listed("SIQA", "question", ("answerA", "answerB", "answerC"), "label", 1, "context"),
    _listed("WinoGrande", "sentence", ("option1", "option2"), "answer", 1),
    _listed("C-Eval", "question", [*"ABCD"], "answer"),
    _listed("CMMLU", "Question", [*"ABCD"], "Answer"),
    Format(
        "GPQA", "choice", needs("Question", "Correct Answer", _GPQA[0]), _shuffled("Question", "Correct Answer", _GPQA),
        ids=("Record ID",),
    ),
    Format(
        "SciQ", "choice", needs("question", "correct_answer", *_SCIQ), _shuffled("question", "correct_answer", _SCIQ),
        ids=("Record ID",),
    ),
)  # fmt: skip
"""In the order in which they are tried."""
