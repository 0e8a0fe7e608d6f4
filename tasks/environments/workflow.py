"""Environment `workflow`: the policy writes a program, the sandbox runs it on the problem and its siblings."""

from collections.abc import Mapping, Sequence

from tasks.environments.protocol import Term
from tasks.programs import answer_check
from tasks.programs.code_blocks import code_of
from tasks.programs.contract import PARTS, prompt_of
from tasks.records import Number, Result


class WorkflowEnvironment:
    """Workflows: Python that defines `solve(problem)`."""

    asks_siblings = True
    parts: Sequence[str] = PARTS
    terms: Mapping[str, Term] = {}

    def prompt(self, question: str, base: str, served: bool = False) -> str:
        """The question alone for a policy from scratch, else with the contract of workflows."""
        return prompt_of(question, base, served)

    def text(self, completion: str) -> str:
        """The code."""
        return code_of(completion)

    def worked_example(self, code: str, question: str) -> str:  # noqa: ARG002
        """The code between fences."""
        return f"```python\n{code}```"

    def is_right(self, result: Result, answer: Number) -> bool:
        """The answer check of programs."""
        return answer_check.is_right(result, answer)

    def demonstration(self, code: str, question: str, malformed_seed: int | None = None) -> str:  # noqa: ARG002
        """The workflow itself."""
        return code
