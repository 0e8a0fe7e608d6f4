"""From workflow records to trajectories: which completions make up a problem's group.

The members of a group are completions, not distinct workflows: what the policy sampled twice stands there twice, as
the policy gradient needs it. Independent samples come first. What the tree found fills up the places that are left,
each workflow once before any twice, so that both outcomes occur wherever they were found: without one good and one
bad member a group teaches nothing, and most from hard negatives, which are right on the problem but not on a sibling.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.programs.agreement import agreement
from tasks.programs.answer_check import solved_share
from tasks.records import Completion, Lineage, Problem, Proposer, Split, Trajectory, Workflow
from tasks.seeds import derive_seed

NO_MORE: tuple[None, tuple[Workflow, ...]] = (None, ())
"""In the place of a problem's workflows, when all were there."""


@dataclass(frozen=True)
class Member:
    """A completion with the workflow that it wrote. `share` of the problem and its siblings are solved by it.

    Without siblings a right answer counts as far as other completions agree with it (tasks/programs/agreement.py).
    """

    workflow: Workflow
    completion: Completion
    proposer: Proposer
    agreement: float
    share: float
    order: int  # by the seed: the place among equals
    is_hard_negative: bool  # right on the problem, but not on every sibling (without any: not as most others are)


@dataclass(frozen=True)
class SearchedProblem:
    """A problem with the workflows that were tried on it."""

    split: Split
    problem: Problem
    workflows: Sequence[Workflow]


def build_trajectories(
    environment: Environment,
    tried: Iterable[SearchedProblem],
    lineage: Lineage,
    group_size: int,
    by_agreement: bool,
    seed: int,
    served: bool = False,
) -> Iterator[Trajectory]:
    """A trajectory for each problem that has a completion, in the order of the problems.

    `lineage` is that of the policy which wrote the completions, `served` whether it was told of operators that a model
    serves. Without `by_agreement` a right answer counts in full on problems without siblings too.
    """
    for each in tried:
        members = group_members(environment, each.problem, each.workflows, by_agreement, seed)
        group = training_group(members, group_size) if each.split == "train" else validation_group(members)
        if group:
            prompt = environment.prompt(each.problem.question, lineage.base, served)
            yield _trajectory(each, prompt, group, lineage)


def pair_with_workflows(
    problems: Iterable[tuple[Split, Problem]], workflows: Iterable[Workflow]
) -> Iterator[tuple[Split, Problem, list[Workflow]]]:
    """Each problem that has workflows, with them. Both stand in one order, so that a problem at a time is in memory.

    Raises GraftError where a workflow does not belong to one of the problems, or stands out of their order.
    """
    groups = groupby(workflows, key=lambda workflow: (workflow.split, workflow.problem_id))
    key, own = next(groups, NO_MORE)
    for split, problem in problems:
        if key == (split, problem.problem_id):
            listed = list(own)
            _refuse(workflow for workflow in listed if len(workflow.sibling_results) != len(problem.siblings))
            yield split, problem, listed
            key, own = next(groups, NO_MORE)
    _refuse(own)


def group_members(
    environment: Environment, problem: Problem, workflows: Sequence[Workflow], by_agreement: bool, seed: int
) -> list[Member]:
    """All completions of a problem, in an order that depends on the seed and on what was written, not on the file."""
    members = []
    counts = agreement(workflows) if by_agreement else [1.0] * len(workflows)
    for workflow, agrees in zip(workflows, counts, strict=True):
        results = [workflow.result, *workflow.sibling_results]
        share = agrees * solved_share(results, problem.answers, environment.is_right)
        is_hard = share < 1 and environment.is_right(workflow.result, problem.answer)
        for place, completion in enumerate(workflow.completions):
            rest: Proposer = "revision" if workflow.proposer == "revision" else "tree"
            proposer: Proposer = "sample" if place < workflow.sampled else rest
            order = derive_seed(seed, "trajectories", problem.problem_id, workflow.workflow_id, place)
            members.append(Member(workflow, completion, proposer, agrees, share, order, is_hard))
    return sorted(members, key=lambda member: member.order)


def training_group(members: Sequence[Member], size: int) -> list[Member]:
    """`size` of the members of a train problem, or all where there are fewer.

    The independent samples, in their order, as many as fit; then the tree's completions, those that solve most first,
    and of those that solve as much the workflows first that the group has least of. Where it then has none of these
    and another completion is one, that takes the place that is easiest to spare:

    1. a completion that solves everything;
    2. the worst one that does not, if the tree has places at all;
    3. a hard negative.
    """
    samples = [member for member in members if member.proposer == "sample"]
    tree = [member for member in members if member.proposer != "sample"]
    ranked = [*samples, *_best_first(tree, samples[:size])]
    group, rest = ranked[:size], ranked[size:]
    rest = _bring_in(lambda member: member.share == 1, group, _best_first(rest))
    if len(samples) < size:
        rest = _bring_in(lambda member: member.share < 1, group, _best_first(rest)[::-1])
    _bring_in(lambda member: member.is_hard_negative, group, _best_first(rest))
    return group


def validation_group(members: Sequence[Member]) -> list[Member]:
    """The independent samples, all of them: influence is measured against them, so nothing is chosen by outcome."""
    return [member for member in members if member.proposer == "sample"]


def _refuse(strays: Iterable[Workflow]) -> None:
    for stray in strays:
        raise GraftError(
            f"workflow {stray.workflow_id} of {stray.problem_id}: was not run on a {stray.split} problem as it is now; "
            "the problems changed since, run the search stage again"
        )


def _best_first(members: Sequence[Member], there: Sequence[Member] = ()) -> list[Member]:
    """By share; then each workflow once before any twice, counting those that are `there` already."""
    had = Counter(member.workflow.workflow_id for member in there)
    keys = []
    for member in members:
        keys.append((-member.share, had[member.workflow.workflow_id], member.order))
        had[member.workflow.workflow_id] += 1
    return [members[place] for place in sorted(range(len(members)), key=keys.__getitem__)]


def _bring_in(wanted: Callable[[Member], bool], group: list[Member], rest: Sequence[Member]) -> list[Member]:
    """The first of `rest` that is wanted takes a place, if nothing in the group is. Returns what is left out then."""
    place = next((place for place, member in enumerate(rest) if wanted(member)), None)
    if place is None or any(map(wanted, group)):
        return list(rest)
    spared = _spare(group)
    left_out = [*rest[:place], group[spared], *rest[place + 1 :]]
    group[spared] = rest[place]
    return left_out


def _spare(group: Sequence[Member]) -> int:
    """The place that is easiest to spare: a failure of the tree, what it wrote twice, a failure, the rest of the tree.

    So the share of solutions stays as it is, and the independent samples do, as far as may be; of several places it
    is that of a duplicate, then the worst, then the last.
    """
    had = Counter(member.workflow.workflow_id for member in group)

    def ease(place: int) -> tuple[int, bool, bool, float, int]:
        member = group[place]
        tree, fails, twice = member.proposer != "sample", member.share < 1, had[member.workflow.workflow_id] > 1
        rank = 3 * (tree and fails) or 2 * (tree and twice) or 1 * fails
        return (rank, tree, twice, -member.share, place)

    return max(range(len(group)), key=ease)


def _trajectory(tried: SearchedProblem, prompt: str, group: Sequence[Member], lineage: Lineage) -> Trajectory:
    problem = tried.problem
    return Trajectory(
        problem_id=problem.problem_id,
        split=tried.split,
        problem=problem,
        prompt=prompt,
        workflow_codes=[member.workflow.code for member in group],
        workflow_ids=[member.workflow.workflow_id for member in group],
        proposers=[member.proposer for member in group],
        results=[member.workflow.result for member in group],
        sibling_results=[member.workflow.sibling_results for member in group],
        tokens=[member.completion.tokens for member in group],
        logprobs=[member.completion.logprobs for member in group],
        policy_version=lineage.version,
        agreement=[] if problem.siblings else [member.agreement for member in group],
    )
