"""Random histories of a project: which problems a lineage of policies learnt from, and which it was tested on."""

import re
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from tasks.errors import GraftError
from tasks.known_problems import NOTHING, KnownProblems
from tasks.params.sections import Problems
from tasks.problems.splits import split_problems
from tasks.records.problems import Problem, Sibling

NIGHTS = 8
POOL = 240


def sizes_of(train: int = 40, validation: int = 10, test: int = 20, dev: int = 0) -> Problems:
    sizes = {"train": train, "validation": validation, "test": test, "dev": dev}
    return Problems(
        source="jsonl", path="", evaluator="format", **sizes, confirm=0, siblings=0, replay=0.0, exclude=None
    )


def problem_of(problem_id: str, question: str, sibling: str | None = None) -> Problem:
    siblings = [Sibling(question=sibling, answer=2)] if sibling else []
    return Problem(problem_id=problem_id, question=question, answer=1, source="t", siblings=siblings)


FORMS = [
    [problem_of(f"p{k}", f"Pens {k} in a box?") for k in range(POOL)],
    [problem_of(f"again-{k}", f" PENS {k}  in a box? ") for k in range(POOL)],
    [problem_of(f"other-{k}", f"Pencils {k + 1000} here?", f"Pens {k} in a box?") for k in range(POOL)],
]
"""The same problems: as they are, written and named otherwise, and as the sibling of another question."""


def asked(problems: Iterable[Problem]) -> set[int]:
    """The numbers of the problems."""
    return {int(number) for each in problems for number in re.findall(r"\d+", " ".join(each.questions))}


class Policy(NamedTuple):
    known: KnownProblems
    learnt: set[int]
    tested: set[int]


class Leaks(NamedTuple):
    """Over a history: test problems that were learnt from, train problems that were tested on, nights, refused ones."""

    tested_on_trained: int
    trained_on_tested: int
    nights: int
    refused: int


def live(number: int, remembers: bool) -> Leaks:
    """A random history of a project: its files slide, grow, come and go, and its sizes and seed are changed."""
    chance = Random(number)
    sizes, seed, begin, width, form = sizes_of(24, 6, 12), 0, 0, 54, 0
    champion = latest = Policy(NOTHING, set(), set())
    tested_on_trained = trained_on_tested = refused = 0
    for _ in range(NIGHTS):
        match chance.randrange(8):
            case 0:
                train, test, dev = (chance.choice(each) for each in ((18, 24, 30), (9, 12, 18), (0, 3)))
                sizes = sizes_of(train, 6, test, dev)
            case 1:
                seed = chance.randrange(5)
            case 2:
                begin = chance.choice((0, 100))  # another source
            case 3:
                form = chance.randrange(len(FORMS))
            case 4 | 5:
                width += 6
            case _:
                begin += 8
        listed = [FORMS[form][k % POOL] for k in range(begin, begin + width)]
        chance.shuffle(listed)
        base = chance.choice((champion, latest))
        try:
            splits = split_problems("data", listed, sizes, seed, base.known if remembers else NOTHING)
        except GraftError:
            refused += 1
            continue
        learnt, tested = asked([*splits["train"], *splits["validation"]]), asked(splits["test"])
        assert learnt.isdisjoint(tested)
        tested_on_trained += len((tested | asked(splits["dev"])) & base.learnt)
        trained_on_tested += len(learnt & base.tested)
        latest = Policy(base.known.with_run(splits), learnt | base.learnt, tested | base.tested)
        champion = chance.choice((champion, latest))
    return Leaks(tested_on_trained, trained_on_tested, NIGHTS - refused, refused)
