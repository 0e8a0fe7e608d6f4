"""Stage `search`: workflows for this round's problems, found by tree search with the present policy as prior."""

import sys
from collections.abc import Sequence
from functools import partial
from math import exp

from rich.console import Console

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.environments.environment import posed
from tasks.environments.named import environment_in
from tasks.environments.running import runner_of
from tasks.errors import GraftError
from tasks.fingerprint import fingerprint
from tasks.layout import Layout
from tasks.params import Params
from tasks.policy.base import SCRATCH, Policy, encode_completion, load_policy
from tasks.policy.served import entered, served_by
from tasks.records import Problem, Split, TreeNode, Workflow
from tasks.search.drawing import picture, telling
from tasks.search.guided import Found, GuidedTree
from tasks.search.journal import Journal
from tasks.search.progress import Tally, shown
from tasks.search.revise import Reviser
from tasks.search.revisions import revision_numbers
from tasks.search.support import run_perturbed, support_of
from tasks.search.waves import Search
from tasks.search.write import node_id, tree_records, write_workflows
from tasks.seeds import derive_seed
from tasks.workflows.contract import workflow_id


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Search the train problems; sample groups for the validation problems, which influence is measured against.

    Where the policy writes answers and no programs, groups are sampled for all.
    """
    assert round is not None
    environment = environment_in(layout.root, params)
    policy = load_policy(layout.policy(round - 1))
    _check_reviser(policy, params)
    splits: list[Split] = ["train", "validation"] if params.influence.validation == "held_out" else ["train"]
    problems = {
        split: [posed(environment, p.turned(round)) for p in read_jsonl(layout.problems(split), Problem)]
        for split in splits
    }
    if "validation" in problems:
        problems["validation"] = drawn(problems["validation"], params.influence.n, params.seed, round)
    journal = _journal(layout, params, round, splits)
    simulations = params.search.simulations if environment.asks_siblings else params.grpo.group_size
    most = {"train": simulations, "validation": params.influence.completions}
    tally = Tally({problem.problem_id: most[split] for split in splits for problem in problems[split]})
    served = served_by(policy, params.operators, layout)
    running = runner_of(environment, params.sandbox, served)
    with running as runner, shown(tally, f"search@{round}", Console(stderr=True)):
        search = Search(policy, environment, runner, params, round, journal, tally)
        trees = {split: search.trees(problems[split]) for split in splits}
        search.sample_all(trees["train"], trees.get("validation", []))
        if environment.asks_siblings:
            search.explore(trees["train"])
        if params.search.revisions and served:
            Reviser(served, runner, partial(encode_completion, policy), params, round).revise(trees["train"])
        if environment.asks_siblings:
            run_perturbed([tree for split in splits for tree in trees[split]], runner)
    found = [pair for split in splits for tree in trees[split] for pair in records_of(tree, split, environment.suffix)]
    nodes = [node for tree in trees["train"] for node in _nodes(tree)]
    told = telling(trees["train"])
    write_workflows(layout.workflows(round), found, nodes)
    write_text(layout.tree(round), picture(_nodes(told), told.problem, round))
    numbers = _metrics(trees["train"]) | (revision_numbers(trees["train"]) if params.search.revisions else {})
    if environment.asks_siblings:
        numbers |= support_of([workflow for workflow, _ in found if workflow.split == "train"])
    write_json(layout.metrics("search", round), numbers)
    entered(served, layout, f"search@{round}")
    journal.remove()


def _check_reviser(policy: Policy, params: Params) -> None:
    """`policy.base: scratch` is refused with the params; here, an earlier policy that was made from scratch."""
    if params.search.revisions and params.operators.backend == "policy" and policy.base == SCRATCH:
        raise GraftError(
            f"search.revisions is {params.search.revisions}, but policy.base is a policy made from scratch, which "
            "cannot read what it would be asked: set operators.backend to openai, or search.revisions to 0"
        )


def _journal(layout: Layout, params: Params, round: int, splits: Sequence[Split]) -> Journal:
    """What a search of the same inputs has left that did not come to its end; says so where it did anything."""
    inputs = fingerprint([layout.policy(round - 1), *(layout.problems(split) for split in splits)], params, round)
    journal = Journal(layout.journals("search", round) / f"{inputs}.jsonl")
    if journal.completions:
        what = f"{journal.completions} completions that a search cut short has left"
        print(f"search@{round}: goes on after {what}", file=sys.stderr)
    return journal


def drawn(problems: Sequence[Problem], count: int, seed: int, round: int) -> list[Problem]:
    """So many of the problems, by lot in each round, in their order; all where there are no more."""
    lots = sorted(problems, key=lambda problem: derive_seed(seed, "validation", round, problem.problem_id))
    chosen = {problem.problem_id for problem in lots[:count]}
    return [problem for problem in problems if problem.problem_id in chosen]


def _nodes(tree: GuidedTree) -> list[TreeNode]:
    return list(tree_records(tree.problem.problem_id, tree.root))


def records_of(tree: GuidedTree, split: Split, suffix: str) -> list[tuple[Workflow, str]]:
    """A record for each workflow that the tree has found, with its code; `suffix` is that of their files."""
    return [(_record(tree.problem.problem_id, split, suffix, found), found.code) for found in tree.found.values()]


def _record(problem_id: str, split: Split, suffix: str, found: Found) -> Workflow:
    name = workflow_id(found.code)
    written = found.samples + found.rollouts
    return Workflow(
        problem_id=problem_id,
        split=split,
        workflow_id=name,
        path=f"{problem_id}/{name}{suffix}",
        proposer="sample" if found.samples else "tree" if found.rollouts else "revision",
        parent_id=node_id(found.from_node) if found.from_node else None,
        depth=found.leaf.depth,
        visits=len(written) + found.revisions,
        value=rounded(found.reward),
        prior=rounded(max((exp(sum(c.logprobs)) for c in written), default=1.0)),
        result=found.results[0],
        sibling_results=found.results[1:],
        completions=written + found.revised,
        sampled=len(found.samples),
        perturbed_results=found.perturbed,
    )


def rounded(value: float) -> float:
    """Six significant digits: what a record keeps of a mean or a probability."""
    return float(f"{value:.6g}")


def _metrics(trees: Sequence[GuidedTree]) -> dict[str, float]:
    best = [max(found.reward for found in tree.found.values()) for tree in trees]
    sampled = [max((f.reward for f in tree.found.values() if f.samples), default=0.0) for tree in trees]
    return {
        "problems": len(trees),
        "completions": sum(tree.rows for tree in trees),
        "workflows": sum(len(tree.found) for tree in trees),
        "solved": sum(value == 1.0 for value in best),
        "solved_by_samples": sum(value == 1.0 for value in sampled),
    }
