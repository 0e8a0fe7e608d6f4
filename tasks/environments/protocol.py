"""Protocol of an environment: the prompt, and how an answer is extracted from a completion, checked and rewarded.

Stages depend on a kind of task through `Environment` only. `workflow` and `answer` are built in; a custom one inherits
`direct.Direct`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tasks.records import Number, Problem, Result

Term = Callable[[Problem, str, Sequence[Result]], float | None]
"""(problem, text, results on the problem and its siblings) → a term of the reward in [0, 1], None if unknown."""


class Environment(Protocol):
    """One kind of task."""

    asks_siblings: bool  # True: completions are programs, run on siblings too
    parts: Sequence[str]  # texts that a tokenizer from scratch encodes as one token each
    terms: Mapping[str, Term]  # of the reward by name, in addition to the built-in ones

    def prompt(self, question: str, base: str, served: bool = False) -> str:
        """The prompt of a question; `base`: base of the policy in its lineage, `served`: a model serves operators."""

    def text(self, completion: str) -> str:
        """The part of a completion that is recorded: its code or its text."""

    def worked_example(self, code: str, question: str) -> str:
        """A completion as prompts show it, for a question that the workflow `code` solves."""

    def is_right(self, result: Result, answer: Number) -> bool:
        """True if a result is the expected answer."""

    def demonstration(self, code: str, question: str, malformed_seed: int | None = None) -> str:
        """Training text for a policy from scratch, for a question that the workflow `code` solves.

        `malformed_seed`: seed of a malformed variant, if the environment has variants that the reward detects.
        """


def with_checked_siblings(environment: Environment, problem: Problem) -> Problem:
    """The problem with the siblings that its completions are checked on: all of them or none."""
    return problem if environment.asks_siblings else problem.model_copy(update={"siblings": []})
