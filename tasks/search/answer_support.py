"""Evidence for a right answer besides the answer itself: siblings, or agreement of workflows on perturbed questions."""

from collections.abc import Collection, Sequence

from tasks.environments.runner import Runner
from tasks.programs.agreement import has_agreement
from tasks.programs.sandbox.sandbox import Program
from tasks.records import NUMBER, Workflow
from tasks.search.perturbed_questions import perturb_question
from tasks.search.policy_tree import FoundWorkflow, PolicyTree


def run_perturbed_questions(trees: Sequence[PolicyTree], runner: Runner) -> None:
    """Run each right workflow on perturbed questions, unless siblings have other answers; sets `perturbed_results`."""
    right: list[FoundWorkflow] = []
    programs: list[Program] = []
    for tree in trees:
        if tree.problem.answers_vary or tree.problem.evaluator != NUMBER:  # texts are not computed from quantities
            continue
        own = [workflow for workflow in tree.workflows.values() if workflow.reward == 1.0]
        questions = perturb_question(tree.problem.question, tree.problem.problem_id) if own else ()
        right += own
        programs += [Program(workflow.code, questions) for workflow in own]
    for workflow, results in zip(right, runner.run(programs), strict=True):
        workflow.perturbed_results = results


def count_support(workflows: Sequence[Workflow], varied: Collection[str]) -> dict[str, float]:
    """Number of solved problems by kind of evidence; `varied`: ids of those whose siblings have other answers.

    Siblings with the same answer are no evidence: a constant solves all of them.
    """
    solving: dict[str, list[Workflow]] = {}
    for workflow in workflows:
        if workflow.value == 1.0:
            solving.setdefault(workflow.problem_id, []).append(workflow)
    by_siblings = sum(problem_id in varied for problem_id in solving)
    by_agreement = sum(has_agreement(found) for found in solving.values())
    return {
        "solved_by_siblings": by_siblings,
        "solved_by_agreement": by_agreement,
        "solved_by_one_answer": len(solving) - by_siblings - by_agreement,
    }
