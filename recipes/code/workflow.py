"""Environment CodeWorkflow: the policy writes a workflow that returns a Python function, hidden unit tests check it."""

from recipes.code.environment import UnitTested, hidden_share
from recipes.code.evaluator import EVALUATOR, UNIT_TESTS
from tasks.environments.workflow import WorkflowEnvironment
from tasks.programs.contract import prompt_of
from tasks.records.problems import Problem
from tasks.records.programs import Result


class CodeWorkflow(UnitTested, WorkflowEnvironment):
    """Workflows that return a Python function, checked by unit tests; for other problems as `workflow`."""

    def prompt_for(self, problem: Problem, base: str, served: bool = False) -> str:
        """The contract, with the operator `test` where the problem has tests."""
        if problem.evaluator != UNIT_TESTS:
            return super().prompt_for(problem, base, served)
        return prompt_of(problem.question, base, served, EVALUATOR.wanted, with_test=True)

    def score(self, problem: Problem, result: Result) -> float:
        """1 if all hidden tests of the code pass, else 0; other answers by the problem's evaluator."""
        share = hidden_share(self, problem, result)
        return share if problem.evaluator != UNIT_TESTS else float(share == 1)
