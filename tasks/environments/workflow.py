"""Environment `workflow`: the policy writes a program, the sandbox runs it on the problem and its siblings.

And the base class of environments whose completions are code.
"""

from collections.abc import Iterable, Sequence

from tasks.environments.prompts import select_examples
from tasks.environments.protocol import Environment, Solved
from tasks.environments.word_problems.word_problems import WordProblems
from tasks.evaluators.scores import score, wanted
from tasks.programs.code_blocks import code_of
from tasks.programs.contract import PARTS, prompt_of
from tasks.records import Problem, Result


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


class WorkflowEnvironment(WordProblems, CodeCompletions):
    """Workflows: Python that defines `solve(problem)`."""

    asks_siblings = True
    parts: Sequence[str] = PARTS

    def prompt(self, question: str, base: str, served: bool = False) -> str:
        """The question alone for a policy from scratch, else with the contract of workflows."""
        return prompt_of(question, base, served)

    def prompt_for(self, problem: Problem, base: str, served: bool = False) -> str:
        """The same, with the kind of answer that the problem's evaluator wants."""
        return prompt_of(problem.question, base, served, wanted(problem.evaluator))

    def score(self, problem: Problem, result: Result) -> float:
        """The score of what the program returned, by the problem's evaluator; 0 if it returned nothing."""
        if result.status != "ok" or result.value is None:
            return 0.0
        return score(problem, result.value, self.root)
