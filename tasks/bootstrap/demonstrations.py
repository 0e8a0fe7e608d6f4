"""Training pairs for a policy from scratch: questions, and the text that the policy should write."""

import logging
from collections.abc import Sequence
from pathlib import Path

from tasks.artifacts import read_jsonl
from tasks.environments.protocol import Environment
from tasks.programs.workflow_files import integrity_error, workflow_location
from tasks.records import Problem, Workflow
from tasks.seeds import SEED_BITS, derive_seed

logger = logging.getLogger(__name__)


def demonstrations(
    environment: Environment, solutions: Sequence[tuple[Problem, str]], malformed_share: float, seed: int
) -> list[tuple[str, str]]:
    """(question, text to learn) for each problem with the workflow that solves it.

    Workflows are learned from the problem's own question: the siblings are used in the rounds. Worked answers are
    learned from the siblings too, as arithmetic takes many examples; `malformed_share` of them, chosen at random, are
    badly formatted.
    """
    pairs = []
    for problem, code in solutions:
        questions = problem.questions[:1] if environment.asks_siblings else problem.questions
        for question in questions:
            random = derive_seed(seed, "spoilt", question)
            malformed = random < malformed_share * 2**SEED_BITS
            pairs.append((question, environment.demonstration(code, question, random if malformed else None)))
    return pairs


def select_solutions(problems: Sequence[Problem], workflows: Path) -> list[tuple[Problem, str]]:
    """Each solved problem with its shortest code. Workflows whose code is not what the search ran are skipped."""
    by_problem: dict[str, list[Workflow]] = {problem.problem_id: [] for problem in problems}
    index = workflows / "index.jsonl"
    for workflow in read_jsonl(index, Workflow):
        by_problem.setdefault(workflow.problem_id, []).append(workflow)
    pairs = []
    for problem in problems:
        for workflow in sorted(by_problem[problem.problem_id], key=lambda w: (w.depth, -w.prior)):
            error = integrity_error(workflow)
            if error is None:
                pairs.append((problem, workflow.code))
                break
            logger.warning("%s: %s; run graft stage coldstart again", workflow_location(workflow, index), error)
    return pairs
