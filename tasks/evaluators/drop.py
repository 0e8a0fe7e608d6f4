"""Evaluator `drop`: DROP's F1 of spans, numbers and dates.

(Dua et al. 2019, "DROP", §5; the official drop_eval.py, which tests compare with.) A value with several spans has one
on each line.
"""

import re
from collections.abc import Sequence
from math import fsum

from tasks.evaluators.number import Value, number_or_text
from tasks.evaluators.text import ARTICLES, PUNCTUATION, text_of
from tasks.records.problems import Answer

Bag = frozenset[str]


def parse(answer: Answer) -> Answer:
    """The accepted answers, each a list of spans.

    Reads a text or number (one span), DROP's own object {number, date, spans}, a list of texts (the spans of one
    answer), and a list of lists (several accepted answers). Raises ValueError for anything else.
    """
    if isinstance(answer, list) and answer and all(isinstance(spans, (list, dict)) for spans in answer):
        return [_spans(spans) for spans in answer]
    return [_spans(answer)]


def score(value: Value, answer: Answer) -> float:
    """The largest F1 over the accepted answers, in [0, 1]."""
    lines = [line for line in text_of(value).split("\n") if line.strip()]
    assert isinstance(answer, list)
    return max(spans_f1(lines, [str(span) for span in spans]) for spans in answer if isinstance(spans, list))


def spans_f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """The mean F1 of the best 1-1 alignment of spans; a span without a partner counts 0.

    A span with numbers matches only spans that share one of them.
    """
    from scipy.optimize import linear_sum_assignment  # takes longer to import than everything else here

    ours, theirs = [_bag(span) for span in predicted], [_bag(span) for span in expected]
    if not ours:
        return 0.0
    table = [[_bag_f1(bag, other) if _numbers_match(other, bag) else 0.0 for bag in ours] for other in theirs]
    rows, columns = linear_sum_assignment([[-share for share in row] for row in table])
    best = fsum(table[row][column] for row, column in zip(rows, columns, strict=True))
    return best / max(len(ours), len(theirs))


def normalise(text: str) -> str:
    """Words split at blanks and hyphens, in lower case, without punctuation and articles; numbers as floats."""
    words = (_word(word) for word in re.split(" |-", text))
    return " ".join(word for word in words if word.strip())


def _word(word: str) -> str:
    word = word.lower()
    if not _is_number(word):
        word = word.translate(PUNCTUATION)
    if _is_number(word):
        word = str(float(word))
    return " ".join(ARTICLES.sub(" ", word).split())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _bag(span: str) -> Bag:
    return frozenset(normalise(span).split())


def _bag_f1(predicted: Bag, expected: Bag) -> float:
    common = len(predicted & expected)
    precision = common / len(predicted) if predicted else 1.0
    recall = common / len(expected) if expected else 1.0
    return 2 * precision * recall / (precision + recall) if precision or recall else 0.0


def _numbers_match(expected: Bag, predicted: Bag) -> bool:
    numbers = {word for word in expected if _is_number(word)}
    return not numbers or any(word in numbers for word in predicted)


def _spans(answer: Answer) -> Answer:
    """The spans of one accepted answer: DROP's number, else its spans, else its date as "day month year"."""
    if isinstance(answer, dict):
        answer = _object_spans(answer)
    if isinstance(answer, list):
        texts = [text_of(number_or_text(span, "a text among the spans")) for span in answer]
    else:
        texts = [text_of(number_or_text(answer, "a text, a list of texts or DROP's {number, date, spans}"))]
    if not any(map(normalise, texts)):
        raise ValueError("no span; give a number, a text or a date")
    return list(texts)


def _object_spans(answer: dict[str, Answer]) -> Answer:
    if answer.get("number") not in (None, ""):
        return answer["number"]
    if answer.get("spans"):
        return answer["spans"]
    date = answer.get("date")
    if isinstance(date, dict):
        return " ".join(str(date[part]) for part in ("day", "month", "year") if date.get(part))
    return ""
