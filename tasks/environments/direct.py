"""Environments whose completions hold the answer themselves. One of your own inherits `Direct` and gives it a prompt,
a parser, perhaps terms and a check; see docs/environments.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random

from tasks.environments.numerals import matches
from tasks.environments.protocol import Term
from tasks.environments.worked_steps import worked_steps
from tasks.errors import GraftError
from tasks.records import Number, Result

Value = int | float | str


class Direct(ABC):
    """One completion, one answer. A subclass must have `prompt` and `parse`."""

    asks_siblings = False
    parts: Sequence[str] = ()
    terms: Mapping[str, Term] = {}

    @abstractmethod
    def prompt(self, question: str, base: str, served: bool = False) -> str:
        """What the policy reads before it writes."""

    @abstractmethod
    def parse(self, text: str) -> Value | None:
        """The answer in what the policy wrote; None where there is none."""

    def check(self, value: Value, answer: Number) -> bool:
        """Whether what `parse` found is the expected answer."""
        return matches(value, answer)

    def written(self, steps: Sequence[str], answer: str) -> str:
        """What a policy from scratch learns to write where these steps lead to the answer."""
        return "\n".join([*steps, answer])

    def spoil(self, text: str, dice: Random) -> str:  # noqa: ARG002
        """What `written` gave, made worse in a way that the terms of the reward can tell."""
        return text

    # What stages call; rarely anything to change.

    def text(self, completion: str) -> str:
        """All of it. Lone surrogates, which no file can hold, become U+FFFD."""
        return completion.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def is_right(self, result: Result, answer: Number) -> bool:
        """Whether it ended well, with the expected answer. Raises GraftError where `check` raises."""
        if result.status != "ok" or result.value is None:
            return False
        try:
            return bool(self.check(result.value, answer))
        except Exception as error:
            raise GraftError(
                f"environment: {type(self).__name__}.check({result.value!r}, {answer!r}) raised "
                f"{type(error).__name__}: {error}; mend it"
            ) from error

    def demonstration(self, code: str, question: str, spoilt: int | None = None) -> str:
        """The steps of the workflow and its answer, as `written` tells them."""
        text = self.written(*worked_steps(code, question))
        return text if spoilt is None else self.spoil(text, Random(spoilt))
