"""Monte Carlo tree search of one shard: some problems of a round, searched together by one process; and sums of shards.

Completions that are decoded in one batch depend on each other in their last digits, so batches, waves and the journal
all belong to a shard. It reads the project's folder: the policy, the journal and the reply cache of the operators'
model.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

from tasks.core.terminal import print_remark
from tasks.environments.lookup import environment_in
from tasks.environments.runner import make_runner
from tasks.layout import Layout
from tasks.model.policy import LOAD_LOCK, ServedModel
from tasks.model.rollouts.operator_model import log_usage, operator_model
from tasks.model.sampling.vllm.serve import load_sampled_policy
from tasks.objective.advantages import has_signal
from tasks.params.params import Params
from tasks.programs.answer_check import failure_reason
from tasks.programs.contract import workflow_id
from tasks.programs.workflow_files import SearchedPart
from tasks.records.problems import Problem
from tasks.records.search import AskedProblem, TreeNode, Workflow
from tasks.search.answer_support import count_support, run_perturbed_questions
from tasks.search.journal import Journal
from tasks.search.node import node_id, tree_records
from tasks.search.policy_search import PolicySearch, SplitProblem
from tasks.search.policy_tree import FoundWorkflow, PolicyTree
from tasks.search.tally import Tally


@dataclass(frozen=True)
class ExampleTree:
    """The tree of a shard to show, with its rank: the greatest of all shards is shown."""

    rank: tuple[bool, int, int]
    nodes: list[TreeNode]
    problem: Problem


@dataclass(frozen=True)
class SearchShard:
    """Result of a shard's search; `metrics` and `support` are summed over shards."""

    asked: list[AskedProblem]
    solved: list[str]
    workflows: list[Workflow]
    nodes: list[TreeNode]
    example: ExampleTree
    metrics: dict[str, float]
    support: dict[str, float]  # solved problems by kind of evidence
    all_vary: bool  # every problem has a sibling with another answer


class SearchTotals:
    """Sums over the shards, and the tree to show."""

    def __init__(self, tally: Tally) -> None:
        self.example: ExampleTree | None = None
        self._tally = tally
        self._metrics: Counter[str] = Counter()
        self._support: Counter[str] = Counter()
        self._all_vary = True

    def collect(self, shards: Iterable[SearchShard]) -> Iterator[SearchedPart]:
        """Problems, workflows and nodes of each shard, to be written."""
        for shard in shards:
            self._tally.close_all([asked.problem_id for asked in shard.asked], shard.solved)
            self._metrics.update(shard.metrics)
            self._support.update(shard.support)
            self._all_vary &= shard.all_vary
            if self.example is None or shard.example.rank > self.example.rank:
                self.example = shard.example
            yield shard.asked, shard.workflows, shard.nodes

    @property
    def metrics(self) -> dict[str, float]:
        """The stage's metrics, with the kinds of evidence unless all problems have siblings with other answers."""
        return {**self._metrics, **({} if self._all_vary else self._support)}


def search_shard(
    root: Path,
    params: Params,
    round: int,
    inputs: str,
    served: ServedModel | None,
    shard: tuple[int, Sequence[SplitProblem]],
) -> SearchShard:
    """`search_problems` with the policy of the project's folder `root`.

    `inputs` is the fingerprint of all inputs of the round's search; a journal with the same one is resumed. `served`:
    the server that samples the policy, None: this process.
    """
    number, problems = shard
    layout = Layout(root)
    environment = environment_in(root, params)
    with LOAD_LOCK:
        policy = load_sampled_policy(layout.policy(round - 1), served)
    journal = Journal(layout.journals("search", round) / f"{inputs}-{number}.jsonl")
    if journal.completions:
        print_remark(f"search@{round}: resumes after {journal.completions} completions of an interrupted search")
    operators = operator_model(policy, params.operators, layout)
    with make_runner(environment, params.sandbox, operators) as runner:
        search = PolicySearch(policy, environment, runner, params, round, journal)
        searched = search_problems(search, problems)
    log_usage(operators, layout, f"search@{round}")
    return searched


def search_problems(search: PolicySearch, problems: Sequence[SplitProblem]) -> SearchShard:
    """Search the problems, of which there is at least one."""
    environment = search.environment
    trees = search.make_trees(problems)
    search.sample(trees)
    if environment.asks_siblings:
        search.explore(trees)
        run_perturbed_questions(trees, search.runner)
    workflows = [_record(tree.asked, workflow) for tree in trees for workflow in tree.workflows.values()]
    best = max(trees, key=_rank)
    varied = {tree.problem.problem_id for tree in trees if tree.problem.answers_vary}
    return SearchShard(
        asked=[tree.asked for tree in trees],
        solved=[tree.problem.problem_id for tree in trees if tree.solved],
        workflows=workflows,
        nodes=[node for tree in trees for node in _nodes(tree)],
        example=ExampleTree(_rank(best), _nodes(best), best.problem),
        metrics=_metrics(trees),
        support=count_support(workflows, varied) if environment.asks_siblings else {},
        all_vary=len(varied) == len(trees),
    )


def _nodes(tree: PolicyTree) -> list[TreeNode]:
    return list(tree_records(tree.problem.problem_id, tree.root))


def _rank(tree: PolicyTree) -> tuple[bool, int, int]:
    """(solved, and by no sample; right completions; nodes): ties go to the first tree."""
    right = [workflow for workflow in tree.workflows.values() if workflow.reward == 1.0]
    return bool(right) and not any(workflow.samples for workflow in right), tree.right, tree.size


def _record(asked: AskedProblem, workflow: FoundWorkflow) -> Workflow:
    return Workflow(
        problem_id=asked.problem_id,
        split=asked.split,
        workflow_id=workflow_id(workflow.code),
        code=workflow.code,
        proposer="sample" if workflow.samples else "tree",
        parent_id=node_id(workflow.from_node) if workflow.from_node else None,
        depth=workflow.leaf.depth,
        visits=len(workflow.completions),
        value=_rounded(workflow.reward),
        prior=_rounded(max(exp(sum(c.logprobs)) for c in workflow.completions)),
        result=workflow.results[0],
        sibling_results=workflow.results[1:],
        completions=workflow.completions,
        sampled=len(workflow.samples),
        perturbed_results=workflow.perturbed_results,
    )


def _rounded(value: float) -> float:
    """To six significant digits, the precision of means and probabilities in records."""
    return float(f"{value:.6g}")


def _metrics(trees: Sequence[PolicyTree]) -> dict[str, float]:
    by_samples = [any(w.samples and w.reward == 1.0 for w in tree.workflows.values()) for tree in trees]
    # Where a program's result failed, nobody knows what it is worth.
    known = [[w.reward for w in tree.workflows.values() if failure_reason(w.results) is None] for tree in trees]
    return {
        "problems": len(trees),
        "completions": sum(tree.completions for tree in trees),
        "workflows": sum(len(tree.workflows) for tree in trees),
        "solved": sum(tree.solved for tree in trees),
        "solved_by_samples": sum(by_samples),
        "with_signal": sum(map(has_signal, known)),
    }
