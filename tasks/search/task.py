"""Stage `search`: workflows for this round's problems, found by tree search with the present policy as prior."""

import sys
from collections.abc import Sequence
from functools import partial
from math import exp
from time import perf_counter

from rich.console import Console

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params
from tasks.policy.base import Policy, decode, encode_completion, encode_prompt, load_policy
from tasks.policy.sampler import Request, Sampler
from tasks.policy.served import entered, served_by
from tasks.records import Completion, Problem, Split, TreeNode, Workflow
from tasks.search.drawing import picture, telling
from tasks.search.guided import Found, GuidedTree, Rollout, lost
from tasks.search.journal import Batch, Journal, Written, digest_of, name_of
from tasks.search.progress import Tally, shown
from tasks.search.revise import Reviser
from tasks.search.revisions import revision_numbers
from tasks.search.support import run_perturbed, support_of
from tasks.search.write import node_id, tree_records, write_workflows
from tasks.seeds import derive_seed
from tasks.workflows.contract import prompt_of, workflow_id
from tasks.workflows.fences import code_of
from tasks.workflows.judge import solved_share
from tasks.workflows.sandbox import Program, Sandbox, sandbox_of


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Search the train problems; sample groups for the validation problems, which influence is measured against."""
    assert round is not None
    policy = load_policy(layout.policy(round - 1), params.policy)
    splits: list[Split] = ["train", "validation"] if params.influence.validation == "held_out" else ["train"]
    problems = {split: [p.turned(round) for p in read_jsonl(layout.problems(split), Problem)] for split in splits}
    journal = _journal(layout, params, round, splits)
    most = {split: params.search.simulations if split == "train" else params.search.samples for split in splits}
    tally = Tally({problem.problem_id: most[split] for split in splits for problem in problems[split]})
    served = served_by(policy, params.operators, layout)
    with sandbox_of(params.sandbox, served) as sandbox, shown(tally, f"search@{round}", Console(stderr=True)):
        search = Search(policy, sandbox, params, round, journal, tally)
        trees = {split: search.trees(problems[split]) for split in splits}
        search.sample_all([tree for split in splits for tree in trees[split]])
        search.explore(trees["train"])
        if params.search.revisions and served:
            Reviser(served, sandbox, partial(encode_completion, policy), params, round).revise(trees["train"])
        run_perturbed([tree for split in splits for tree in trees[split]], sandbox)
    found = [pair for split in splits for tree in trees[split] for pair in _records(tree, split)]
    nodes = [node for tree in trees["train"] for node in _nodes(tree)]
    told = telling(trees["train"])
    write_workflows(layout.workflows(round), found, nodes)
    write_text(layout.tree(round), picture(_nodes(told), told.problem, round))
    numbers = _metrics(trees["train"]) | (revision_numbers(trees["train"]) if params.search.revisions else {})
    support = support_of([workflow for workflow, _ in found if workflow.split == "train"])
    write_json(layout.metrics("search", round), numbers | support)
    entered(served, layout, f"search@{round}")
    journal.remove()


def _journal(layout: Layout, params: Params, round: int, splits: Sequence[Split]) -> Journal:
    """What a search of the same inputs has left that did not come to its end; says so where it did anything."""
    inputs = digest_of([layout.policy(round - 1), *(layout.problems(split) for split in splits)], params, round)
    journal = Journal(layout.journals("search", round) / f"{inputs}.jsonl")
    if journal.completions:
        what = f"{journal.completions} completions that a search cut short has left"
        print(f"search@{round}: goes on after {what}", file=sys.stderr)
    return journal


class Search:
    """One round's search: the policy writes, the sandbox runs, the trees learn.

    What `journal` holds is not done again, and what is done is added to it; `tally` is told of each completion.
    """

    def __init__(
        self,
        policy: Policy,
        sandbox: Sandbox,
        params: Params,
        round: int,
        journal: Journal | None = None,
        tally: Tally | None = None,
    ) -> None:
        self.policy, self.sandbox, self.params, self.round = policy, sandbox, params, round
        self.journal, self.tally = journal, tally or Tally({})
        self.sampler = Sampler(policy, params.search.temperature, params.policy.max_new_tokens)
        texts = policy.tokenizer.batch_decode([[i] for i in range(len(policy.tokenizer))])
        self._ends = {i for i, text in enumerate(texts) if "\n" in text}

    def trees(self, problems: Sequence[Problem]) -> list[GuidedTree]:
        """A tree for each problem."""
        longest = self.params.policy.max_new_tokens
        return [GuidedTree(problem, self._ends.__contains__, self._text, longest) for problem in problems]

    def _text(self, tokens: list[int]) -> str:
        return decode(self.policy, tokens).strip()

    def sample_all(self, trees: Sequence[GuidedTree]) -> None:
        """The first wave: independent samples for every problem."""
        count = self.params.search.samples
        self._run([(tree, rollout) for tree in trees for rollout in tree.samples(count)])

    def explore(self, trees: Sequence[GuidedTree]) -> None:
        """Waves of rollouts from inside the trees, up to `search.simulations` completions for each problem.

        No wave begins once all have taken `search.seconds` for each tree. A problem that nothing solves yet keeps the
        last `search.revisions` back for revisions.
        """
        search, spent = self.params.search, 0.0
        while search.seconds is None or spent < search.seconds * len(trees):
            wave = [(tree, rollout) for tree in trees for rollout in self._proposed(tree)]
            if not wave:
                return
            spent += self._run(wave)

    def _proposed(self, tree: GuidedTree) -> list[Rollout]:
        search = self.params.search
        kept_back = 0 if tree.solved else search.revisions
        count = min(search.wave, search.simulations - kept_back - tree.rows)
        seed = derive_seed(self.params.seed, "search", self.round)
        rollouts = tree.propose(count, search.exploration, search.rule, seed, search.stop_at)
        if not rollouts:
            self.tally.ended(tree.problem.problem_id)
        return rollouts

    def _run(self, rollouts: Sequence[tuple[GuidedTree, Rollout]]) -> float:
        """Let the trees learn from these rollouts; gives the seconds that it took, now or before an interruption."""
        requests = [self._request(tree, rollout) for tree, rollout in rollouts]
        came: dict[int, Written] = {}
        seconds = 0.0
        for rows in self.sampler.batches(requests):
            problems = [rollouts[i][0].problem for i in rows]
            batch = self._batch([requests[i] for i in rows], problems)
            came.update(zip(rows, batch.written, strict=True))
            seconds += batch.seconds
            for problem, written in zip(problems, batch.written, strict=True):
                self.tally.came(problem.problem_id, solved_share(written.results, problem.answers))
        for i, (tree, rollout) in enumerate(rollouts):  # in this order, whatever the batches are
            completion, results = came[i].completion, came[i].results
            tree.learn(rollout, completion, self._code(completion), results, tree.credit(results))
        return seconds

    def _batch(self, requests: Sequence[Request], problems: Sequence[Problem]) -> Batch:
        """The completions of these requests, each run on the questions of its problem; from the journal if it can."""
        name = name_of(requests)
        if self.journal and (known := self.journal.batch(name)):
            return known
        started = perf_counter()
        completions = self.sampler.complete(requests)
        programs = [Program(self._code(c), p.questions) for c, p in zip(completions, problems, strict=True)]
        pairs = zip(completions, self.sandbox.run(programs), strict=True)
        written = [Written(completion=completion, results=results) for completion, results in pairs]
        batch = Batch(name=name, seconds=perf_counter() - started, written=written)
        failures = [each.results for each in written if lost(each.results)]
        if len(failures) > self.params.rewards.failed_limit * len(written):
            why = next(result.error for result in failures[0] if result.status == "failed")
            raise GraftError(
                f"search: {len(failures)} of {len(written)} workflows have no result, rewards.failed_limit is "
                f"{self.params.rewards.failed_limit:.0%}; for instance {why}: mend that and run again, nothing "
                "that was done is lost"
            )
        if self.journal and not failures:  # another time they may have a result
            self.journal.add(batch)
        return batch

    def _code(self, completion: Completion) -> str:
        return code_of(decode(self.policy, completion.tokens))

    def _request(self, tree: GuidedTree, rollout: Rollout) -> Request:
        problem = tree.problem
        seed = derive_seed(self.params.seed, "search", self.round, problem.problem_id, rollout.row)
        prompt = encode_prompt(self.policy, prompt_of(problem.question, self.params.policy.base, self.sandbox.serves))
        return Request(prompt, seed, tree.prefix(rollout.from_node))


def _nodes(tree: GuidedTree) -> list[TreeNode]:
    return list(tree_records(tree.problem.problem_id, tree.root))


def _records(tree: GuidedTree, split: Split) -> list[tuple[Workflow, str]]:
    return [(_record(tree.problem.problem_id, split, found), found.code) for found in tree.found.values()]


def _record(problem_id: str, split: Split, found: Found) -> Workflow:
    name = workflow_id(found.code)
    written = found.samples + found.rollouts
    return Workflow(
        problem_id=problem_id,
        split=split,
        workflow_id=name,
        path=f"{problem_id}/{name}.py",
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
