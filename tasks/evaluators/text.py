"""Evaluator `text`: exact match after SQuAD's normalisation.

In a text an answer may be in a box of LaTeX.
"""

import re
import string
from collections.abc import Callable

from tasks.evaluators.number import Value, number_or_text, shorten
from tasks.records.problems import Answer

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)

BLANK = r"[ \t\u00a0\u2009\u202f]"
"""A blank within a line, LaTeX's spaces included."""

_BL = BLANK + "{0,3}"
_BOX = re.compile(rf"\\(?:boxed|fbox){_BL}\{{|\\.|[{{}}]", re.DOTALL)
_PERCENT = re.compile(rf"{_BL}\\?%")


def parse(answer: Answer) -> Answer:
    """A text, or a list of accepted texts; numbers become texts.

    Raises ValueError for anything else, and for a text of which nothing is left by `normalise`.
    """
    return parse_accepted(answer, _text)


def parse_accepted(answer: Answer, parse_one: Callable[[Answer], Answer]) -> Answer:
    """An answer, or each of a list of accepted ones, as `parse_one` gives it. Raises ValueError for an empty list."""
    if not isinstance(answer, list):
        return parse_one(answer)
    if not answer:
        raise ValueError("an empty list; give at least one accepted answer")
    return [parse_one(option) for option in answer]


def score(value: Value, answer: Answer) -> float:
    """1 if the value and an accepted answer are equal once normalised, else 0."""
    predicted = normalise(text_of(value))
    return float(any(predicted == normalise(expected) for expected in accepted(answer)))


def normalise(text: str) -> str:
    """In lower case, without ASCII punctuation, the articles a, an and the, and extra blanks.

    (`normalize_answer` of SQuAD's evaluate-v1.1.py; Rajpurkar et al. 2016, §6.1.)
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def text_of(value: Value) -> str:
    """The value as text; an integral float without its `.0`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def accepted(answer: Answer) -> list[str]:
    """The accepted texts of an answer from `parse`."""
    return [str(text) for text in answer] if isinstance(answer, list) else [str(answer)]


def _text(answer: Answer) -> str:
    text = text_of(number_or_text(answer, "a text"))
    if not normalise(text):
        raise ValueError(f"{shorten(text)} is empty without punctuation and articles; use evaluator choice for letters")
    return text


def last_box(text: str) -> str | None:
    """Content of the box that is closed last (the outer one of nested boxes), with a % that follows it; else None.

    Linear in the length of the text.
    """
    spans = box_spans(text)
    if not spans:
        return None
    start, end = spans[-1]
    return text[start:end] + ("%" if _PERCENT.match(text, end + 1) else "")


def box_spans(text: str) -> list[tuple[int, int]]:
    """Where the content of each box starts and ends, in the order in which they are closed."""
    opened: list[int | None] = []  # for each open brace the start of its box, or None
    spans = []
    for brace in _BOX.finditer(text):
        if brace[0] == "}":
            start = opened.pop() if opened else None
            if start is not None:
                spans.append((start, brace.start()))
        elif brace[0] == "{":
            opened.append(None)
        elif brace[0].endswith("{") and len(brace[0]) > 2:
            opened.append(brace.end())
    return spans
