"""Base class of environments that write word problems, and solve them without a policy.

Answers are numbers: the stage `coldstart` enumerates short arithmetic programs over the quantities of a question, until
one gives the answers to the problem and to its siblings. The numbers of a file's problems are found in the same way.
"""

from collections.abc import Mapping, Sequence

from tasks.environments.protocol import Environment
from tasks.environments.word_problems.generate import generate
from tasks.environments.word_problems.problem_writer import WordProblemParams
from tasks.params.sections import Problems, SandboxParams
from tasks.records.problems import Problem, Split
from tasks.records.search import Workflow


class WordProblems(Environment):
    """Environments whose problems are stories with quantities, and whose answers are numbers."""

    Params = WordProblemParams
    params = WordProblemParams()

    def problems(self, sizes: Problems, seed: int) -> dict[Split, list[Problem]]:
        """Stories of the grammar, or fixed ones."""
        return generate(sizes, self.params, seed)

    def fresh_problems(self, sizes: Problems, seed: int, draw: str) -> list[Problem]:
        """Of the same compositions, tellings and templates, and as many unseen ones; other quantities and names."""
        from tasks.environments.word_problems.generate import generate

        return generate(sizes, self.params, seed, draw)["test"]

    def solutions(self, problems: Sequence[Problem], sandbox: SandboxParams) -> Mapping[str, Workflow | None]:
        """The likeliest shortest program for each problem whose answers are numbers."""
        # late: it needs NumPy and the sandbox, and coldstart alone calls it
        from tasks.environments.word_problems.solve_problems import solve_problems

        return solve_problems(problems, self.params.enumerated_operations, sandbox)
