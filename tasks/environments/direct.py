"""Base class of environments whose completions contain the answer itself.

A custom environment inherits `Direct` and defines a prompt and a parser, optionally terms and a check; see
docs/environments.md.
"""

from abc import abstractmethod

from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.evaluators.number import Value
from tasks.evaluators.numerals import matches
from tasks.evaluators.scores import score
from tasks.records.problems import NUMBER, Answer, Problem
from tasks.records.programs import CheckVerdict, Result


class Direct(Environment):
    """One completion, one answer. A subclass defines `prompt` and `parse`."""

    @abstractmethod
    def parse(self, text: str) -> Value | None:
        """The answer in a completion, None if there is none."""

    def check(self, value: Value, answer: Answer) -> bool:
        """True if a value from `parse` is the expected answer. Overridden, it replaces the problem's evaluator."""
        return matches(value, answer)

    # Called by stages; rarely overridden.

    def parse_for(self, evaluator: str, text: str) -> Value | None:  # noqa: ARG002
        """`parse`; overridden where the answer is read in another way for another evaluator."""
        return self.parse(text)

    def text(self, completion: str) -> str:
        """The whole completion, with lone surrogates, which files cannot contain, replaced by U+FFFD."""
        return completion.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def score(self, problem: Problem, result: Result) -> float:
        """0 unless the result is ok; 0 or 1 by `check` for numbers or if it is overridden, else by the evaluator.

        Raises GraftError if `check` or a user's evaluator raises.
        """
        if result.status != "ok" or result.value is None:
            return 0.0
        by_evaluator = problem.evaluator != NUMBER and type(self).check is Direct.check
        if by_evaluator or isinstance(result.value, CheckVerdict):
            return score(problem, result.value, self.root)
        try:
            return float(bool(self.check(result.value, problem.answer)))
        except Exception as error:
            raise GraftError(
                f"environment: {type(self).__name__}.check({result.value!r}, {problem.answer!r:.200}) raised "
                f"{type(error).__name__}: {error}; fix it"
            ) from error
