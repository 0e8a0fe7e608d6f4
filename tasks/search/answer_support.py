"""What speaks for a right answer: siblings, the agreement of workflows, or nothing else."""

from collections.abc import Sequence

from tasks.environments.runner import Runner
from tasks.programs.agreement import has_agreement
from tasks.programs.sandbox.sandbox import Program
from tasks.records import Workflow
from tasks.search.perturbed_questions import perturb_question
from tasks.search.policy_tree import FoundWorkflow, PolicyTree


def run_perturbed(trees: Sequence[PolicyTree], runner: Runner) -> None:
    """Run what is right on a problem without siblings on its perturbed questions; the results go into `perturb_question`."""
    right: list[FoundWorkflow] = []
    programs: list[Program] = []
    for tree in trees:
        own = [found for found in tree.workflows.values() if found.reward == 1.0 and not tree.problem.siblings]
        texts = perturb_question(tree.problem.question, tree.problem.problem_id) if own else ()
        right += own
        programs += [Program(found.code, texts) for found in own]
    for found, results in zip(right, runner.run(programs), strict=True):
        found.perturbed_results = results


def count_support(workflows: Sequence[Workflow]) -> dict[str, float]:
    """How many of the solved problems rest on what."""
    solving: dict[str, list[Workflow]] = {}
    for workflow in workflows:
        if workflow.value == 1.0:
            solving.setdefault(workflow.problem_id, []).append(workflow)
    by_siblings = sum(bool(found[0].sibling_results) for found in solving.values())
    by_agreement = sum(has_agreement(found) for found in solving.values())
    return {
        "solved_by_siblings": by_siblings,
        "solved_by_agreement": by_agreement,
        "solved_by_one_answer": len(solving) - by_siblings - by_agreement,
    }
