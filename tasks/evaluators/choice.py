"""Evaluator `choice`: the letter of the right choice, read from a text."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tasks.evaluators.number import Value, kind_of, shorten
from tasks.evaluators.text import box_spans
from tasks.records.problems import Answer

_ALONE = re.compile(r"[\W_]*([A-Za-z])[\W_]*")
_LONGEST_BOX = 60
_FONT = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf)(?![a-z])")
_WORD = re.compile(r"[^\W_]+")
_BL = r"\s{0,3}"  # bounded, so that the patterns are linear in the length of the text
_IS = rf"\b(?:is|would be|must be)\b{_BL}"
_OPEN, _CLOSE = r"[*$\"'\[({]{0,4}", r"[*$\"'\])}]{0,4}"
_LETTER = rf"{_OPEN}(?:(?!I\s+\w)([A-Z])(?![\w'’])|([a-z])(?=[)\]]|[\s.*]{{0,9}}\Z))"
_STATED = re.compile(
    rf"(?i:\b(?:answer\b{_BL}(?:{_IS})?[:=]?|(?:choice|option)\b{_BL}(?:{_IS}[:=]?|[:=])){_BL}"
    rf"(?:(?:option|choice)\b{_BL})?){_LETTER}"
)
_MENTIONED = re.compile(rf"(?i:\b(?:choice|option)\b{_BL}){_LETTER}")
_AND = r"[*$\"'\])}.\s]{0,4}(?:\b(?:or|and)\b|[/&])"
_ANOTHER = re.compile(  # "A, B is wrong" gives one letter
    rf"{_AND}{_BL}{_LETTER}|(?:{_CLOSE}{_BL}[,;]{_BL}|[ \t]{{1,3}}){_LETTER}"
    rf"(?!{_CLOSE}(?:[ \t]+(?!(?:or|and)\b)[a-z0-9]|\.[ \t]+[a-z]|-\w))"
)
_BOX_TOO = re.compile(rf"(?:{_AND}|{_CLOSE}{_BL}[,;])[*$\s]{{0,4}}\\(?:boxed|fbox)\s{{0,3}}\{{")
_LEADING = re.compile(r"[\s*]*(?:\(([A-Za-z])(?=\)(?:[\s*]|\Z))|([A-Z])(?=[).:](?:[\s*]|\Z)))")


class _Statement(NamedTuple):
    """Letters that a text states, between two places of it; a box starts with its content."""

    end: int
    start: int
    letters: str


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
    r"""The letter that a text gives, the first that applies: alone ("(b)."); in the last box or after the last "answer
    is" or "answer:", whichever is later; after the last "option"; in front ("B) Paris").

    None if there is none, or two: "Answer: A, B". A box is `\boxed{}` with letters alone.
    """
    if alone := _ALONE.fullmatch(text):
        return alone[1].upper()
    stated = sorted([*_boxed(text), *_matches(_STATED, text)]) or [*_matches(_MENTIONED, text)]
    if not stated:
        leading = _LEADING.match(text)
        stated = [_statement(leading)] if leading else []
    if not stated or (len(stated) > 1 and _BOX_TOO.fullmatch(text, stated[-2].end, stated[-1].start)):
        return None
    letters = stated[-1].letters
    return letters if len(letters) == 1 and not _ANOTHER.match(text, stated[-1].end) else None


def _matches(pattern: "re.Pattern[str]", text: str) -> Iterator[_Statement]:
    return (_statement(match) for match in pattern.finditer(text))


def _statement(match: "re.Match[str]") -> _Statement:
    return _Statement(match.end(), match.start(), (match[1] or match[2]).upper())


def _boxed(text: str) -> Iterator[_Statement]:
    """The boxes with nothing but letters of choices."""
    for start, end in box_spans(text):
        words = _WORD.findall(_FONT.sub("", text[start:end])) if end - start <= _LONGEST_BOX else []
        letters = [word for word in words if word not in ("and", "or")]
        if letters and all(len(letter) == 1 and letter.isascii() and letter.isalpha() for letter in letters):
            yield _Statement(end + 1, start, "".join(letters).upper())
