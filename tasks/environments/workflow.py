"""Environment `workflow`: the policy writes a program, the sandbox runs it on the problem and its siblings."""

from collections.abc import Sequence

from tasks.environments.code_completions import CodeCompletions
from tasks.environments.word_problems.word_problems import WordProblems
from tasks.evaluators.scores import score, wanted
from tasks.programs.contract import PARTS, prompt_of
from tasks.records import Problem, Result


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
