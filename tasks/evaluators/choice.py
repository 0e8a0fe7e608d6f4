"""Evaluator `choice`: the letter of the right choice, read from a text."""

import re

from tasks.evaluators.number import Value, kind_of, shorten
from tasks.evaluators.text import last_box
from tasks.records import Answer

_ALONE = re.compile(r"[\W_]*([A-Za-z])[\W_]*")
_IN_BOX = re.compile(r"[\W_]*(?:\\(?:text|textbf|mathrm|mathbf)\s*\{)?[\W_]*([A-Za-z])[\W_]*")
_BL = r"\s{0,3}"  # bounded, so that the patterns are linear in the length of the text
_STATED = re.compile(
    rf"(?i:\b(?:answer|choice|option)\b(?:{_BL}\b(?:is|would be|must be)\b)?{_BL}[:=]?{_BL}"
    rf"(?:(?:option|choice)\b{_BL})?)[*$\"'\[({{]{{0,4}}"
    r"(?:(?!I\s+\w)([A-Z])(?![\w'’])|([a-z])(?=[)\]]|[\s.*]{0,9}\Z))"
)
_ANOTHER = re.compile(r"[*$\"'\])}.\s]{0,4}(?:\b(?:or|and)\b|/)\s{0,3}[*$\"'\[({]{0,4}[A-Z](?![\w'’])")
_LEADING = re.compile(r"[\s*]*(?:\(([A-Za-z])\)|([A-Z])[).:])(?=[\s*]|\Z)")


def parse(answer: Answer) -> str:
    """The letter of an answer such as "b", "(B)" or "B.". Raises ValueError for anything else."""
    if not isinstance(answer, str):
        raise ValueError(f"{kind_of(answer)}, not the letter of a choice")
    alone = _ALONE.fullmatch(answer)
    if not alone or not alone[1].isascii():
        raise ValueError(f"{shorten(answer)} is not the letter of a choice")
    return alone[1].upper()


def score(value: Value, answer: Answer) -> float:
    """1 if the letter that a value gives is the answer, else 0."""
    return float(isinstance(value, str) and letter_in(value) == answer)


def letter_in(text: str) -> str | None:
    r"""The letter that a text gives, the first that applies: alone ("(b)."), in the last `\boxed{}`, after the last
    "answer is" or "answer:", or in front ("B) Paris"). None if there is none, or two: "the answer is A or B".
    """
    if alone := _ALONE.fullmatch(text):
        return alone[1].upper()
    box = last_box(text)
    if box is not None:
        inside = _IN_BOX.fullmatch(box)
        return inside[1].upper() if inside else None
    if stated := list(_STATED.finditer(text)):
        last = stated[-1]
        return None if _ANOTHER.match(text, last.end()) else (last[1] or last[2]).upper()
    leading = _LEADING.match(text)
    return (leading[1] or leading[2]).upper() if leading else None
