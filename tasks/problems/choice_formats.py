"""Formats of questions with choices: these are shown below the question, the answer is the letter of one."""

import random
import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase
from typing import Any

from tasks.evaluators.number import kind_of
from tasks.problems.columns import ColumnError, check_text
from tasks.problems.row import Columns, Format, Row, id_in, id_of, in_context, needs
from tasks.seeds import derive_seed

_LETTER = re.compile(r"[\s(]*([A-Za-z])[\s).:]*")
_WINO = ("option1", "option2")
_SIQA = ("answerA", "answerB", "answerC")
_SCIQ = ("distractor1", "distractor2", "distractor3")
_GPQA = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
_LABEL = re.compile(r"\s*\(?([A-Z])[).:]\s*")


def _listed(
    question: str, choices: str | Sequence[str], key: str, first: int | None = None, context: str | None = None
) -> Callable[[Columns], Row]:
    """A reader of lines with these columns.

    `choices`: a list, an object with a text for each letter, or one column for each. `first`: number of the first
    choice, where keys are numbers, also as texts. `context`: a text that may stand in front of the question.
    """

    def read(row: Columns) -> Row:
        names = [choices] if isinstance(choices, str) else list(choices)
        given = row[names[0]] if isinstance(choices, str) else [row[name] for name in names]
        if isinstance(given, dict) and set(given) <= {*ascii_uppercase}:
            given = [given[letter] for letter in sorted(given)]
        texts = _texts(names[0], given)
        shown = _with_choices(question, row[question], texts)
        if context and row.get(context):
            shown = in_context(check_text(context, row[context]), shown)
        letter = _letter(key, row[key] if first is None else _number_of(row[key]), texts, first or 0)
        used = (question, *names, key, *((context,) if context else ()), "id", "question_id")
        if "answer_index" in row and row["answer_index"] != ascii_uppercase.index(letter):
            raise ColumnError("answer_index", f"{row['answer_index']}, but {key} is {letter}; fix the line")
        return Row(shown, letter, (*used, "answer_index"), id_in(row), key)

    return read


def _arc(row: Columns) -> Row:
    asked = "question_stem" if "question_stem" in row else "question"
    question = row[asked]
    if isinstance(question, dict):  # as published
        listed = question.get("choices") or []
        texts, labels = [each.get("text") for each in listed], [each.get("label") for each in listed]
        stem = question.get("stem")
    else:
        texts, labels, stem = row["choices"].get("text"), row["choices"].get("label"), question
    labels = [str(label).upper() for label in labels or ()]
    key = str(row["answerKey"]).upper()
    if key not in labels:
        raise ColumnError("answerKey", f"{row['answerKey']!r} is none of the labels {labels}; fix the line")
    choices = _texts("choices", texts)
    answer = _letter("answerKey", labels.index(key), choices)  # some lines count 1 to 4
    used = ("answerKey", "choices", asked, "id")
    return Row(_with_choices(asked, stem, choices), answer, used, id_in(row), "answerKey")


def _shuffled(question: str, right: str, wrong: Sequence[str]) -> Callable[[Columns], Row]:
    """A reader of lines whose right and wrong choices have columns of their own."""

    def read(row: Columns) -> Row:
        names = [right, *wrong]
        asked, choices = check_text(question, row[question]), _texts(right, [row[name] for name in names])
        order = list(range(len(choices)))
        random.Random(derive_seed("problems", "choices", asked)).shuffle(order)
        shown = _with_choices(question, asked, [choices[place] for place in order])
        used = (*names, question, "Record ID")
        return Row(shown, ascii_uppercase[order.index(0)], used, id_of(row.get("Record ID")), right)

    return read


def _with_choices(column: str, question: Any, choices: Sequence[str]) -> str:
    lines = (f"{letter}) {choice}" for letter, choice in zip(ascii_uppercase, choices, strict=False))
    return "\n".join([check_text(column, question), *lines])


def _letter(column: str, key: Any, choices: Sequence[str], first: int = 0) -> str:
    """The letter of a key: a number, a letter, or the text of a choice. Raises ColumnError for another."""
    count = min(len(choices), len(ascii_uppercase))
    if isinstance(key, float) and key.is_integer():  # a column of integers in which one is missing
        key = int(key)
    if isinstance(key, str) and key in choices:
        place = choices.index(key)
        letter = _LETTER.fullmatch(key)
        if letter and ascii_uppercase.index(letter[1].upper()) != place:
            raise ColumnError(column, f"{key!r} is a letter and the text of another choice; write the letter's number")
    elif isinstance(key, str) and (letter := _LETTER.fullmatch(key)):
        place = ascii_uppercase.index(letter[1].upper())
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


CHOICE_FORMATS = tuple(
    Format(name, "choice", needs(*columns), read)
    for name, columns, read in (
        ("MMLU", ("question", "choices", "answer"), _listed("question", "choices", "answer")),
        ("ARC", ("question", "answerKey"), _arc),
        ("OpenBookQA", ("question_stem", "answerKey"), _arc),
        (
            "RACE",
            ("article", "question", "options", "answer"),
            _listed("question", "options", "answer", context="article"),
        ),
        ("MedQA", ("question", "options", "answer_idx"), _listed("question", "options", "answer_idx")),
        ("AQuA", ("question", "options", "correct"), _listed("question", "options", "correct")),
        ("AGIEval", ("question", "options", "label"), _listed("question", "options", "label", context="passage")),
        ("MMLU-Pro", ("question", "options", "answer"), _listed("question", "options", "answer")),
        ("LogiQA", ("query", "options", "correct_option"), _listed("query", "options", "correct_option", 0, "context")),
        ("ReClor", ("context", "question", "answers", "label"), _listed("question", "answers", "label", 0, "context")),
        ("HellaSwag", ("ctx", "endings", "label"), _listed("ctx", "endings", "label", 0)),
        ("PIQA", ("goal", "sol1", "sol2", "label"), _listed("goal", ("sol1", "sol2"), "label", 0)),
        ("SIQA", ("question", *_SIQA, "label"), _listed("question", _SIQA, "label", 1, "context")),
        ("WinoGrande", ("sentence", *_WINO, "answer"), _listed("sentence", _WINO, "answer", 1)),
        ("C-Eval", ("question", *"ABCD", "answer"), _listed("question", [*"ABCD"], "answer")),
        ("CMMLU", ("Question", *"ABCD", "Answer"), _listed("Question", [*"ABCD"], "Answer")),
        ("GPQA", ("Question", "Correct Answer", _GPQA[0]), _shuffled("Question", "Correct Answer", _GPQA)),
        ("SciQ", ("question", "correct_answer", *_SCIQ), _shuffled("question", "correct_answer", _SCIQ)),
    )
)
"""In the order in which they are tried."""
