"""Environment `workflow`: the policy writes a program, the sandbox runs it on the problem and its siblings."""

from collections.abc import Sequence

from tasks.environments.protocol import OptionalMethods
from tasks.evaluators.scores import score, wanted
from tasks.programs.code_blocks import code_of
from tasks.programs.contract import PARTS, prompt_of
from tasks.records import Problem, Result


class WorkflowEnvironment(OptionalMethods):
    """Workflows: Python that defines `solve(problem)`."""

    asks_siblings = True
    parts: Sequence[str] = PARTS

    def prompt(self, question: str, base: str, served: bool = False) -> str:
        """The question alone for a policy from scratch, else with the contract of workflows."""
        return prompt_of(question, base, served)

    def prompt_for(self, problem: Problem, base: str, served: bool = False) -> str:
        """The same, with the kind of answer that the problem's evaluator wants."""
        return prompt_of(problem.question, base, served, wanted(problem.evaluator))

    def text(self, completion: str) -> str:
        """The code."""
        return code_of(completion)

    def worked_example(self, code: str, question: str) -> str:  # noqa: ARG002
        """The code between fences."""
        return f"```python\n{code}```"

    def is_right(self, problem: Problem, result: Result) -> bool:
        """True if the score is 1."""
        return self.score(problem, result) == 1

    def score(self, problem: Problem, result: Result) -> float:
        """The score of what the program returned, by the problem's evaluator; 0 if it returned nothing."""
        if result.status != "ok" or result.value is None:
            return 0.0
        return score(problem, result.value, self.root, self.partial_tests)

    def demonstration(self, code: str, question: str, malformed_seed: int | None = None) -> str:  # noqa: ARG002
        """The workflow itself."""
        return code
