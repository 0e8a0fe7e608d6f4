"""Near-duplicates: questions that share half of their runs of three words (resemblance: Broder 1997).

Lines with equal questions are refused by the stage. Near-duplicates of other splits are not, but a test problem that
nearly repeats a train problem measures memory.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tasks.programs.operators.builtin import without_context
from tasks.records.problems import Problem

WORD = re.compile(r"\w+")

RUN = 3
"""Words of a run."""

RESEMBLANCE = 0.5
"""Jaccard similarity of the sets of runs, from which two questions are near-duplicates. In GSM8K it finds stories with
a sentence or a few numbers changed, and no others."""


def near_duplicates(test: Sequence[Problem], learnt: Iterable[Problem]) -> dict[str, str]:
    """Id of each test problem that nearly repeats another, learnt one, or a sibling of it → the id of the first."""
    places, sizes = defaultdict[tuple[str, ...], list[int]](list), list[int]()
    for place, problem in enumerate(test):
        runs = _runs(problem.question)
        sizes.append(len(runs))
        for run in runs:
            places[run].append(place)
    found: dict[int, str] = {}
    for problem in learnt:
        for runs in map(_runs, problem.questions):
            shared = Counter(place for run in runs for place in places.get(run, ()))
            for place, count in shared.items():
                is_near = count >= RESEMBLANCE * (len(runs) + sizes[place] - count)
                if is_near and problem.problem_id != test[place].problem_id:
                    found.setdefault(place, problem.problem_id)
    return {test[place].problem_id: found[place] for place in sorted(found)}


def _runs(question: str) -> set[tuple[str, ...]]:
    words = WORD.findall(without_context(question).casefold())
    return {tuple(words[i : i + RUN]) for i in range(max(1, len(words) - RUN + 1))}
