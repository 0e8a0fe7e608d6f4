"""Selection of each problem's group of completions from the workflows of its search.

Members of a group are completions, not distinct workflows: what the policy sampled twice counts twice, as the policy
gradient requires. Independent samples come first; completions from the tree fill the remaining places, each workflow
once before any twice, so that both outcomes occur if they were found: a group without a good and a bad member has no
gradient. Most useful are hard negatives, which are right on the problem but not on a sibling.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from tasks.environments.protocol import Environment, solved_share
from tasks.errors import GraftError
from tasks.programs.agreement import agreement
from tasks.records.problems import Problem
from tasks.records.search import AskedProblem, Completion, Engine, Proposer, Workflow
from tasks.seeds import derive_seed
from tasks.trajectories import Member, Trajectory


@dataclass(frozen=True)
class GroupCandidate:
    """A completion that a group may have, with its workflow; `share` of the problem and its siblings are solved by it.

    Unless siblings have other answers, a right answer is weighted by its agreement with the others
    (tasks/programs/agreement.py).
    """

    workflow: Workflow
    completion: Completion
    proposer: Proposer
    agreement: float
    share: float
    order: int  # random rank among equals, from the seed
    is_hard_negative: bool  # right on the problem, but share < 1


class SearchedProblem(NamedTuple):
    """A problem with the workflows that its search found."""

    asked: AskedProblem
    workflows: list[Workflow]


def build_trajectories(
    environment: Environment,
    searched: Iterable[SearchedProblem],
    policy_version: str,
    group_size: int,
    seed: int,
    engine: Engine | None = None,
) -> Iterator[Trajectory]:
    """A trajectory for each problem that has a completion, in the order of the problems.

    `policy_version` and `engine`: what wrote the completions.
    """
    for asked, workflows in searched:
        candidates = group_candidates(environment, asked.problem, workflows, seed)
        group = training_group(candidates, group_size)
        if group:
            members = [_member(candidate, asked.problem.answers_vary) for candidate in group]
            yield Trajectory(**dict(asked), members=members, policy_version=policy_version, engine=engine)


def pair_with_workflows(asked: Iterable[AskedProblem], workflows: Iterable[Workflow]) -> Iterator[SearchedProblem]:
    """Join problems and workflows, both in the same order, with one problem in memory at a time.

    Problems without workflows are left out. Raises GraftError for a workflow of another problem or out of order.
    """
    groups = groupby(workflows, key=lambda workflow: (workflow.split, workflow.problem_id))
    key, group = next(groups, (None, ()))
    for problem in asked:
        if key == (problem.split, problem.problem_id):
            listed, siblings = list(group), len(problem.problem.siblings)
            _refuse_strays(workflow for workflow in listed if len(workflow.sibling_results) != siblings)
            yield SearchedProblem(problem, listed)
            key, group = next(groups, (None, ()))
    _refuse_strays(group)


def group_candidates(
    environment: Environment, problem: Problem, workflows: Sequence[Workflow], seed: int
) -> list[GroupCandidate]:
    """All completions of a problem, in an order that depends on the seed and the workflows, not on the file."""
    members = []
    for workflow, agrees in zip(workflows, agreement(workflows), strict=True):
        results = [workflow.result, *workflow.sibling_results]
        share = agrees * solved_share(environment, problem, results)
        is_hard = share < 1 and environment.is_right(problem, workflow.result)
        for place, completion in enumerate(workflow.completions):
            proposer: Proposer = "sample" if place < workflow.sampled else "tree"
            order = derive_seed(seed, "trajectories", problem.problem_id, workflow.workflow_id, place)
            members.append(GroupCandidate(workflow, completion, proposer, agrees, share, order, is_hard))
    return sorted(members, key=lambda member: member.order)


def training_group(members: Sequence[GroupCandidate], size: int) -> list[GroupCandidate]:
    """`size` of the members of a problem, or all if there are fewer.

    First the independent samples, in their order; then the tree's completions by decreasing share, among equals those
    whose workflow the group has least of. Then each of these kinds that the group lacks replaces the most expendable
    member, if there is one left:

    1. a completion that solves everything;
    2. the worst one that does not, if the tree has places at all;
    3. a hard negative.
    """
    samples = [member for member in members if member.proposer == "sample"]
    tree = [member for member in members if member.proposer != "sample"]
    ranked = [*samples, *_best_first(tree, samples[:size])]
    group, rest = ranked[:size], ranked[size:]
    rest = _ensure(lambda member: member.share == 1, group, _best_first(rest))
    if len(samples) < size:
        rest = _ensure(lambda member: member.share < 1, group, _best_first(rest)[::-1])
    _ensure(lambda member: member.is_hard_negative, group, _best_first(rest))
    return group


def _refuse_strays(strays: Iterable[Workflow]) -> None:
    for stray in strays:
        raise GraftError(
            f"workflow {stray.workflow_id} of {stray.problem_id}: is of no {stray.split} problem of this search; run "
            "the search stage again"
        )


def _best_first(members: Sequence[GroupCandidate], present: Sequence[GroupCandidate] = ()) -> list[GroupCandidate]:
    """The members by decreasing share; then each workflow once before any twice, counting those of `present`."""
    counts = Counter(member.workflow.workflow_id for member in present)
    keys = []
    for member in members:
        keys.append((-member.share, counts[member.workflow.workflow_id], member.order))
        counts[member.workflow.workflow_id] += 1
    return [members[place] for place in sorted(range(len(members)), key=keys.__getitem__)]


def _ensure(
    wanted: Callable[[GroupCandidate], bool], group: list[GroupCandidate], rest: Sequence[GroupCandidate]
) -> list[GroupCandidate]:
    """If no member is wanted, the first wanted one of `rest` replaces one. Returns the new rest."""
    place = next((place for place, member in enumerate(rest) if wanted(member)), None)
    if place is None or any(map(wanted, group)):
        return list(rest)
    replaced = _most_expendable(group)
    left_out = [*rest[:place], group[replaced], *rest[place + 1 :]]
    group[replaced] = rest[place]
    return left_out


def _most_expendable(group: Sequence[GroupCandidate]) -> int:
    """The most expendable place: a failure of the tree, a duplicate of the tree, any failure, the rest of the tree.

    This keeps the share of solutions and the independent samples if possible; ties go to a duplicate, the worst, the
    last.
    """
    counts = Counter(member.workflow.workflow_id for member in group)

    def expendability(place: int) -> tuple[int, bool, bool, float, int]:
        member = group[place]
        tree, fails, twice = member.proposer != "sample", member.share < 1, counts[member.workflow.workflow_id] > 1
        rank = 3 * (tree and fails) or 2 * (tree and twice) or 1 * fails
        return (rank, tree, twice, -member.share, place)

    return max(range(len(group)), key=expendability)


def _member(candidate: GroupCandidate, answers_vary: bool) -> Member:
    workflow, completion = candidate.workflow, candidate.completion
    return Member(
        workflow_id=workflow.workflow_id,
        code=workflow.code,
        proposer=candidate.proposer,
        result=workflow.result,
        sibling_results=workflow.sibling_results,
        tokens=completion.tokens,
        logprobs=completion.logprobs,
        kept=completion.kept,
        agreement=None if answers_vary else candidate.agreement,
    )
