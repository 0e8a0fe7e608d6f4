"""Profile of the problems that a policy learnt from, with which new problems are compared.

Lengths are compared by the two-sample Kolmogorov–Smirnov distance (Smirnov 1939; `scipy.stats.ks_2samp`), frequencies
of words by the Jensen–Shannon distance to base 2 (Lin 1991; Endres and Schindelin 2003). Both lie from 0 to 1.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tasks.records.problems import Answer, Problem
from tasks.records.record import Record

WORD = re.compile(r"[^\W\d_]+")
"""A number is none: new problems always have others."""

MOST_WORDS = 100
"""Words that are counted one by one. Of rare words, 100 problems have too few: with 1,000 words random halves of GSM8K
are further apart than GSM8K and HumanEval with 100."""

PERCENTILES = 100


class ProblemProfile(Record):
    """Problems in numbers: `champion/profile.json`."""

    problems: int
    lengths: list[int]  # percentiles of the lengths of questions in characters, from the 0th
    words: dict[str, int]  # counts of the most frequent words
    other_words: int  # count of all others
    answers: dict[str, int]  # kind → problems


class Drift(NamedTuple):
    """Distances of problems from a profile."""

    length: float
    vocabulary: float


def profile_of(problems: Iterable[Problem]) -> ProblemProfile:
    """The profile of at least one problem."""
    lengths, words, answers = list[int](), Counter[str](), Counter[str]()
    for problem in problems:
        lengths.append(len(problem.question))
        words.update(_words(problem))
        answers[kind_of_problem(problem)] += 1
    lengths.sort()
    frequent = dict(sorted(words.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS])
    return ProblemProfile(
        problems=len(lengths),
        lengths=[lengths[(len(lengths) - 1) * place // PERCENTILES] for place in range(PERCENTILES + 1)],
        words=frequent,
        other_words=words.total() - sum(frequent.values()),
        answers=dict(answers),
    )


def drift(profile: ProblemProfile, problems: Iterable[Problem]) -> Drift:
    """How far problems, at least one, are from a profile."""
    from scipy.spatial.distance import jensenshannon
    from scipy.stats import ks_2samp

    lengths, words = list[int](), Counter[str]()
    for problem in problems:
        lengths.append(len(problem.question))
        words.update(_words(problem))
    known = [*profile.words.values(), profile.other_words]
    new = [words[word] for word in profile.words]
    new.append(words.total() - sum(new))
    without_words = not sum(known) or not sum(new)
    vocabulary = float(sum(known) != sum(new)) if without_words else float(jensenshannon(known, new, base=2))
    return Drift(float(ks_2samp(profile.lengths, lengths, method="asymp").statistic), vocabulary)


def kind_of_problem(problem: Problem) -> str:
    """Its evaluator and the kind of its answer, as `graft problems` names it; of a user's own the evaluator alone."""
    is_user_code = ":" in problem.evaluator
    return problem.evaluator if is_user_code else f"{problem.evaluator}: {kind_of_answer(problem.answer)}"


def kind_of_answer(answer: Answer) -> str:
    """The kind of an answer in words for people, in the plural."""
    if isinstance(answer, list):
        return "with one accepted answer" if len(answer) == 1 else "with several accepted answers"
    kinds = {int: "integers", float: "decimals", str: "texts", dict: "objects", bool: "true or false"}
    return kinds[type(answer)]


def _words(problem: Problem) -> list[str]:
    return WORD.findall(problem.question.casefold())
