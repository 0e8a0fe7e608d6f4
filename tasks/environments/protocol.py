"""What a policy is trained to write: how it is asked for that, how an answer is read out of it, checked and rewarded.

All that stages know of a kind of task stands behind `Environment`: search, collect, reward, update and evaluation are
the same for each. Two are there, `workflow` and `answer`; for one of your own inherit `direct.Direct`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tasks.records import Number, Problem, Result

Term = Callable[[Problem, str, Sequence[Result]], float | None]
"""(problem, what was written, what it gave on the problem and its siblings) → a term of the reward in [0, 1].

None: nobody knows."""


class Environment(Protocol):
    """One kind of task."""

    asks_siblings: bool  # a program is run on its problem's siblings too; an answer answers one question
    parts: Sequence[str]  # texts that a tokenizer made from scratch keeps as one token each
    terms: Mapping[str, Term]  # of the reward, by name, beside those that every environment has

    def prompt(self, question: str, base: str, served: bool = False) -> str:
        """What the policy reads before it writes.

        `base`: what it was first made of, as its lineage says; `served`: a model serves operators.
        """

    def text(self, completion: str) -> str:
        """What is kept of a completion."""

    def is_right(self, result: Result, answer: Number) -> bool:
        """Whether a result is the expected answer."""

    def demonstration(self, code: str, question: str, spoilt: int | None = None) -> str:
        """What a policy made from scratch learns to write for a question that the workflow `code` solves.

        `spoilt`: a seed; written badly, in a way drawn by it, where there are ways that the reward can tell.
        """


def with_checked_siblings(environment: Environment, problem: Problem) -> Problem:
    """The problem with the siblings that what is written will be checked on: all of them or none."""
    return problem if environment.asks_siblings else problem.model_copy(update={"siblings": []})
