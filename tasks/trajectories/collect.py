"""From workflow records to trajectories: which completions make up a problem's group.

The members of a group are completions, not distinct workflows: what the policy sampled twice stands there twice, as
the policy gradient needs it. Independent samples come first. What the tree found fills up the places that are left,
so that both outcomes occur wherever they were found: without one good and one bad member a group teaches nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.errors import GraftError
from tasks.records import Completion, Lineage, Problem, Proposer, Split, Trajectory, Workflow
from tasks.seeds import derive_seed
from tasks.workflows.agreement import agreement
from tasks.workflows.contract import prompt_of
from tasks.workflows.judge import solved_share


@dataclass(frozen=True)
class Member:
    """A completion with the workflow that it wrote. `share` of the problem and its siblings are solved by it.

    Without siblings a right answer counts as far as other completions agree with it (tasks/workflows/agreement.py).
    """

    workflow: Workflow
    completion: Completion
    proposer: Proposer
    agreement: float
    share: float
    order: int  # by the seed: the place among equals


def collect(
    problems: Mapping[Split, Sequence[Problem]],
    workflows: Sequence[Workflow],
    codes: Mapping[str, str],
    lineage: Lineage,
    base: str,
    group_size: int,
    by_agreement: bool,
    seed: int,
) -> list[Trajectory]:
    """A trajectory for each problem that has a completion, in the order of the problems.

    `codes` maps a workflow's path to its text; `lineage` is that of the policy which wrote the completions. Without
    `by_agreement` a right answer counts in full on problems without siblings too.
    Raises GraftError where a workflow does not belong to one of the problems.
    """
    found = _by_problem(problems, workflows)
    trajectories = []
    for split, listed in problems.items():
        for problem in listed:
            members = members_of(problem, found[split, problem.problem_id], by_agreement, seed)
            group = training_group(members, group_size) if split == "train" else validation_group(members, group_size)
            if group:
                prompt = prompt_of(problem.question, base)
                trajectories.append(_trajectory(problem, split, prompt, group, codes, lineage))
    return trajectories


def members_of(problem: Problem, workflows: Sequence[Workflow], by_agreement: bool, seed: int) -> list[Member]:
    """All completions of a problem, in an order that depends on the seed and on what was written, not on the file."""
    members = []
    counts = agreement(workflows) if by_agreement else [1.0] * len(workflows)
    for workflow, agrees in zip(workflows, counts, strict=True):
        share = agrees * solved_share([workflow.result, *workflow.sibling_results], problem.answers)
        for place, completion in enumerate(workflow.completions):
            proposer: Proposer = "sample" if place < workflow.sampled else "tree"
            order = derive_seed(seed, "trajectories", problem.problem_id, workflow.workflow_id, place)
            members.append(Member(workflow, completion, proposer, agrees, share, order))
    return sorted(members, key=lambda member: member.order)


def training_group(members: Sequence[Member], size: int) -> list[Member]:
    """`size` of the members of a train problem, or all where there are fewer.

    1. The independent samples, in their order, as many as fit.
    2. If places are left, the tree's completions, those that solve most first. Where that would give a group that
       solves everything, the last place goes to the tree's worst completion, if that one fails.
    3. If nothing in the group solves everything but another completion does, it takes the last place.
    """
    samples = [member for member in members if member.proposer == "sample"]
    tree = _best_first([member for member in members if member.proposer == "tree"])
    group = (samples + tree)[:size]
    left = tree[max(0, size - len(samples)) :]
    if len(samples) < size and left and all(member.share == 1 for member in group):
        group[-1] = left[-1]
    best = _best_first([*samples[size:], *left])
    if best and best[0].share == 1 and all(member.share < 1 for member in group):
        group[-1] = best[0]
    return group


def validation_group(members: Sequence[Member], size: int) -> list[Member]:
    """The first `size` independent samples: influence is measured against them, so nothing is chosen by outcome."""
    return [member for member in members if member.proposer == "sample"][:size]


def _by_problem(
    problems: Mapping[Split, Sequence[Problem]], workflows: Sequence[Workflow]
) -> dict[tuple[Split, str], list[Workflow]]:
    known = {(split, problem.problem_id): problem for split, listed in problems.items() for problem in listed}
    found: dict[tuple[Split, str], list[Workflow]] = {key: [] for key in known}
    for workflow in workflows:
        key = (workflow.split, workflow.problem_id)
        if key not in known or len(known[key].siblings) != len(workflow.sibling_results):
            raise GraftError(
                f"workflow {workflow.path}: was not run on a {workflow.split} problem as it is now; "
                "the problems changed since, run the search stage again"
            )
        found[key].append(workflow)
    return found


def _best_first(members: Sequence[Member]) -> list[Member]:
    return sorted(members, key=lambda member: (-member.share, member.order))


def _trajectory(
    problem: Problem, split: Split, prompt: str, group: Sequence[Member], codes: Mapping[str, str], lineage: Lineage
) -> Trajectory:
    return Trajectory(
        problem_id=problem.problem_id,
        split=split,
        problem=problem,
        prompt=prompt,
        workflow_codes=[codes[member.workflow.path] for member in group],
        workflow_ids=[member.workflow.workflow_id for member in group],
        proposers=[member.proposer for member in group],
        results=[member.workflow.result for member in group],
        sibling_results=[member.workflow.sibling_results for member in group],
        tokens=[member.completion.tokens for member in group],
        logprobs=[member.completion.logprobs for member in group],
        policy_version=lineage.version,
        agreement=[] if problem.siblings else [member.agreement for member in group],
    )
