"""Environment `code`: the policy writes a Python function, hidden unit tests in the sandbox check it."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from tasks.environments.code_completions import CodeCompletions
from tasks.environments.direct import Direct
from tasks.evaluators.scores import score
from tasks.params.sections import Problems, SandboxParams, Section
from tasks.programs.code_blocks import code_of
from tasks.records import Problem, Result, Split, Workflow

_ASKED = (
    "Write the Python function that is described. Use the standard library only. Answer with the code of the whole "
    "function only, between ``` fences.\n\n"
)


class UnitTestedCode(CodeCompletions, Direct):
    """Python functions, checked by unit tests that neither the policy nor the search sees."""

    class Params(Section):
        partial_tests: bool = Field(
            False, description="true: code counts by the share of its hidden tests that pass; false: only if all do"
        )

    params = Params()

    parts: Sequence[str] = (
        "def ", "(x):", "(x, y):", " return ", " + ", " - ", " * ", " // ", " % ", "assert ", " == ",
    )  # fmt: skip

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        """The question alone for a policy from scratch, else with instructions."""
        return f"{question}\n" if base == "scratch" else f"{_ASKED}{question}\n"

    def text_for(self, problem: Problem, completion: str) -> str:
        """The code in a completion: a whole function, or the rest of one that the question begins."""
        answer = problem.answer
        return code_of(completion, str(answer["entry_point"])) if isinstance(answer, dict) else self.text(completion)

    def parse(self, text: str) -> str | None:
        """The code, which `text_for` has taken out of the completion."""
        return text or None

    def score(self, problem: Problem, result: Result) -> float:
        """The share of the hidden tests that pass, rounded down unless `partial_tests`."""
        if result.status != "ok" or result.value is None:
            return 0.0
        return score(problem, result.value, self.root, self.params.partial_tests)

    def problems(self, sizes: Problems, seed: int) -> dict[Split, list[Problem]]:
        """One-line functions."""
        from tasks.environments.generated_functions import generate_functions

        return generate_functions(sizes.splits, seed)

    def solutions(self, problems: Sequence[Problem], sandbox: SandboxParams) -> Mapping[str, Workflow | None]:
        """The solutions that problems bring."""
        from tasks.environments.known_solutions import known_solutions

        return known_solutions(problems, sandbox)
