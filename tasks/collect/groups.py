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

from tasks.environments.prompts import prompt_of
from tasks.environments.protocol import Environment, solved_share
from tasks.errors import GraftError
from tasks.programs.agreement import agreement
from tasks.records import Completion, Lineage, Problem, PromptFormat, Proposer, Split, Trajectory, Workflow
from tasks.seeds import derive_seed

END: tuple[None, tuple[Workflow, ...]] = (None, ())
"""End of the workflows."""


@dataclass(frozen=True)
class Member:
    """A completion with its workflow; `share` of the problem and its siblings are solved by it.

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


@dataclass(frozen=True)
class SearchedProblem:
    """A problem with the workflows that its search found."""

    split: Split
    problem: Problem
    workflows: Sequence[Workflow]


def build_trajectories(
    environment: Environment,
    searched: Iterable[SearchedProblem],
    lineage: Lineage,
    form: PromptFormat | None,
    group_size: int,
    seed: int,
    served: bool = False,
) -> Iterator[Trajectory]:
    """A trajectory for each problem that has a completion, in the order of the problems.

    `lineage` and `form` belong to the policy that wrote the completions; `served`: its prompt named operators served
    by a model.
    """
    for each in searched:
        members = group_members(environment, each.problem, each.workflows, seed)
        group = training_group(members, group_size) if each.split == "train" else validation_group(members)
        if group:
            prompt = prompt_of(environment, form, each.problem, lineage.base, served)
            yield _trajectory(each, prompt, group, lineage)


def pair_with_workflows(
    problems: Iterable[tuple[Split, Problem]], workflows: Iterable[Workflow]
) -> Iterator[tuple[Split, Problem, list[Workflow]]]:
    """Join problems and workflows, both in the same order, with one problem in memory at a time.

    Problems without workflows are left out. Raises GraftError for a workflow of another problem or out of order.
    """
    groups = groupby(workflows, key=lambda workflow: (workflow.split, workflow.problem_id))
    key, own = next(groups, END)
    for split, problem in problems:
        if key == (split, problem.problem_id):
            listed = list(own)
            _refuse_strays(workflow for workflow in listed if len(workflow.sibling_results) != len(problem.siblings))
            yield split, problem, listed
            key, own = next(groups, END)
    _refuse_strays(own)


def group_members(environment: Environment, problem: Problem, workflows: Sequence[Workflow], seed: int) -> list[Member]:
    """All completions of a problem, in an order that depends on the seed and the workflows, not on the file."""
    members = []
    for workflow, agrees in zip(workflows, agreement(workflows), strict=True):
        results = [workflow.result, *workflow.sibling_results]
        share = agrees * solved_share(environment, problem, results)
        is_hard = share < 1 and environment.is_right(problem, workflow.result)
        for place, completion in enumerate(workflow.completions):
            rest: Proposer = "revision" if workflow.proposer == "revision" else "tree"
            proposer: Proposer = "sample" if place < workflow.sampled else rest
            order = derive_seed(seed, "trajectories", problem.problem_id, workflow.workflow_id, place)
            members.append(Member(workflow, completion, proposer, agrees, share, order, is_hard))
    return sorted(members, key=lambda member: member.order)


def training_group(members: Sequence[Member], size: int) -> list[Member]:
    """`size` of the members of a train problem, or all if there are fewer.

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


def validation_group(members: Sequence[Member]) -> list[Member]:
    """All independent samples: influence is measured against them, so nothing is selected by outcome."""
    return [member for member in members if member.proposer == "sample"]


def _refuse_strays(strays: Iterable[Workflow]) -> None:
    for stray in strays:
        raise GraftError(
            f"workflow {stray.workflow_id} of {stray.problem_id}: was run on another version of its "
            f"{stray.split} problem; "
            "the problems have changed, run the search stage again"
        )


def _best_first(members: Sequence[Member], present: Sequence[Member] = ()) -> list[Member]:
    """By share; then each workflow once before any twice, counting those of the group `present`."""
    counts = Counter(member.workflow.workflow_id for member in present)
    keys = []
    for member in members:
        keys.append((-member.share, counts[member.workflow.workflow_id], member.order))
        counts[member.workflow.workflow_id] += 1
    return [members[place] for place in sorted(range(len(members)), key=keys.__getitem__)]


def _ensure(wanted: Callable[[Member], bool], group: list[Member], rest: Sequence[Member]) -> list[Member]:
    """If no member is wanted, the first wanted one of `rest` replaces one. Returns the new rest."""
    place = next((place for place, member in enumerate(rest) if wanted(member)), None)
    if place is None or any(map(wanted, group)):
        return list(rest)
    replaced = _most_expendable(group)
    left_out = [*rest[:place], group[replaced], *rest[place + 1 :]]
    group[replaced] = rest[place]
    return left_out


def _most_expendable(group: Sequence[Member]) -> int:
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


def _trajectory(searched: SearchedProblem, prompt: str, group: Sequence[Member], lineage: Lineage) -> Trajectory:
    problem = searched.problem
    return Trajectory(
        problem_id=problem.problem_id,
        split=searched.split,
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
        kept=[member.completion.kept for member in group] if any(member.completion.kept for member in group) else [],
        agreement=[] if problem.answers_vary else [member.agreement for member in group],
    )
