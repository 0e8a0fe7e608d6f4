"""Environment Code: the policy writes a Python function, hidden unit tests in the sandbox check it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pydantic import Field

from recipes.code.evaluator import UNIT_TESTS, score, shown_share
from recipes.code.formats import FORMATS
from recipes.code.generated_functions import generate_functions
from recipes.code.judge import known_solutions, make_judge
from recipes.code.problem_check import check_unit_tests
from tasks.environments.code_completions import CodeCompletions
from tasks.environments.direct import Direct
from tasks.environments.protocol import CheckedProblems, Environment, Judge, solved_share
from tasks.evaluators.scores import score as score_by_evaluator
from tasks.params.sections import Problems, SandboxParams, Section
from tasks.programs.code_blocks import code_of
from tasks.records.problems import Problem, Split
from tasks.records.programs import Result
from tasks.records.search import Workflow

_ASKED = (
    "Write the Python function that is described. Use the standard library only. Answer with the code of the whole "
    "function only, between ``` fences.\n\n"
)


class UnitTested(Environment):
    """What functions and workflows (workflow.py) have in common: the formats of files, their check, the verdicts."""

    formats: Sequence[Any] = FORMATS

    def check_problems(self, problems: Mapping[str, Problem], sandbox: SandboxParams) -> CheckedProblems:
        """The problems with their tests counted; refused are those whose tests check nothing."""
        return check_unit_tests(problems, sandbox)

    def judge(self, sandbox: SandboxParams) -> AbstractContextManager[Judge | None]:
        """The unit tests of the problems."""
        return make_judge(sandbox)

    def search_share(self, problem: Problem, results: Sequence[Result]) -> float:
        """By the shown tests, where there are hidden ones."""
        return shown_share(results[0]) if problem.evaluator == UNIT_TESTS else solved_share(self, problem, results)


class Code(UnitTested, CodeCompletions, Direct):
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
        share = hidden_share(self, problem, result)
        return share if self.params.partial_tests or problem.evaluator != UNIT_TESTS else float(share == 1)

    def problems(self, sizes: Problems, seed: int) -> dict[Split, list[Problem]]:
        """Generated one-line functions with their tests."""
        return generate_functions(sizes.splits, seed)

    def solutions(self, problems: Sequence[Problem], sandbox: SandboxParams) -> Mapping[str, Workflow | None]:
        """The solutions that problems bring."""
        return known_solutions(problems, sandbox)


def hidden_share(environment: Environment, problem: Problem, result: Result) -> float:
    """The share of the hidden tests that passed; the score of an answer that is no code."""
    if result.status != "ok" or result.value is None:
        return 0.0
    if problem.evaluator == UNIT_TESTS:
        return score(result.value, problem.answer)
    return score_by_evaluator(problem, result.value, environment.root)
