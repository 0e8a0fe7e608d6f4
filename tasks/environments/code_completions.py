"""Base class of environments whose completions are code."""

from collections.abc import Iterable, Sequence

from tasks.environments.prompts import select_examples
from tasks.environments.protocol import Environment, Solved
from tasks.programs.code_blocks import code_of


class CodeCompletions(Environment):
    """A policy learns the code of solved problems itself; a prompt shows it between fences."""

    def text(self, completion: str) -> str:
        """The code, a workflow that defines `solve`."""
        return code_of(completion)

    def demonstrations(self, solved: Sequence[Solved], seed: int) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """The code that solves each problem, from its own question: the siblings are used in the rounds."""
        return [(problem.question, code) for problem, code in solved]

    def worked_examples(self, solved: Sequence[Solved], count: int, seed: int) -> list[tuple[str, str]]:  # noqa: ARG002
        """Codes that differ, between fences."""
        return select_examples(solved, count, lambda code, _: f"```python\n{code}```")
