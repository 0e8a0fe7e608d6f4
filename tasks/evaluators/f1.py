"""Evaluator `f1`: F1 of the words of a value and of an answer, as SQuAD and HotpotQA measure it."""

from collections import Counter

from tasks.evaluators import text
from tasks.evaluators.number import Value
from tasks.records.problems import Answer

_VERDICTS = ("yes", "no", "noanswer")

parse = text.parse


def score(value: Value, answer: Answer) -> float:
    """The largest F1 over the accepted answers, in [0, 1]; 1 if the words are the same, in any order."""
    return max(word_f1(text.text_of(value), expected) for expected in text.accepted(answer))


def word_f1(predicted: str, expected: str) -> float:
    """2·p·r / (p + r) of the normalised words as bags: p = common / given, r = common / expected; 0 if none is common.

    If one of the two is yes, no or noanswer, only the same is right. (`f1_score` of SQuAD's evaluate-v1.1.py, with that
    rule of hotpot_evaluate_v1.py; Yang et al. 2018.)
    """
    first, second = text.normalise(predicted), text.normalise(expected)
    if first != second and (first in _VERDICTS or second in _VERDICTS):
        return 0.0
    ours, theirs = first.split(), second.split()
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0
