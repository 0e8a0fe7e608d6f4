"""Stage `search`: workflows for this round's problems, found by tree search with the present policy as prior."""

from collections.abc import Sequence
from math import exp

from tasks.artifacts import read_jsonl, write_json
from tasks.layout import Layout
from tasks.params import Params
from tasks.policy.base import Policy, decode, encode_prompt, load_policy
from tasks.policy.sampler import Request, sample
from tasks.records import Problem, Split, Workflow
from tasks.search.guided import Found, GuidedTree, Rollout
from tasks.search.support import run_perturbed, support_of
from tasks.search.write import node_id, tree_records, write_workflows
from tasks.seeds import derive_seed
from tasks.workflows.contract import code_of, prompt_of, workflow_id
from tasks.workflows.judge import solved_share
from tasks.workflows.sandbox import Program, Sandbox, sandbox_of


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Search the train problems; sample groups for the validation problems, which influence is measured against."""
    assert round is not None
    policy = load_policy(layout.policy(round - 1), params.policy)
    splits: list[Split] = ["train", "validation"] if params.influence.validation == "held_out" else ["train"]
    with sandbox_of(params.sandbox) as sandbox:
        search = Search(policy, sandbox, params, round)
        problems = {split: [p.turned(round) for p in read_jsonl(layout.problems(split), Problem)] for split in splits}
        trees = {split: search.trees(problems[split]) for split in splits}
        search.sample_all([tree for split in splits for tree in trees[split]])
        search.explore(trees["train"])
        run_perturbed([tree for split in splits for tree in trees[split]], sandbox)
    found = [pair for split in splits for tree in trees[split] for pair in _records(tree, split)]
    nodes = [node for tree in trees["train"] for node in tree_records(tree.problem.problem_id, tree.root)]
    write_workflows(layout.workflows(round), found, nodes)
    support = support_of([workflow for workflow, _ in found if workflow.split == "train"])
    write_json(layout.metrics("search", round), _metrics(trees["train"]) | support)


class Search:
    """One round's search: the policy writes, the sandbox runs, the trees learn."""

    def __init__(self, policy: Policy, sandbox: Sandbox, params: Params, round: int) -> None:
        self.policy, self.sandbox, self.params, self.round = policy, sandbox, params, round
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
        self._run([(tree, rollout) for tree in trees for rollout in tree.samples(count)], "sampling")

    def explore(self, trees: Sequence[GuidedTree]) -> None:
        """Waves of rollouts from inside the trees, up to `search.simulations` completions for each problem."""
        search = self.params.search
        while True:
            wave = [
                (tree, rollout)
                for tree in trees
                for rollout in tree.propose(min(search.wave, search.simulations - tree.rows), search.exploration)
            ]
            if not wave:
                return
            self._run(wave, "tree search")

    def _run(self, rollouts: Sequence[tuple[GuidedTree, Rollout]], title: str) -> None:
        requests = [self._request(tree, rollout) for tree, rollout in rollouts]
        longest = self.params.policy.max_new_tokens
        completions = sample(self.policy, requests, self.params.search.temperature, longest, title)
        codes = [code_of(decode(self.policy, c.tokens)) for c in completions]
        programs = [Program(code, tree.problem.questions) for code, (tree, _) in zip(codes, rollouts, strict=True)]
        outcomes = self.sandbox.run(programs)
        for (tree, rollout), completion, code, results in zip(rollouts, completions, codes, outcomes, strict=True):
            reward = solved_share(results, tree.problem.answers)
            tree.learn(rollout, completion, code, results, reward)

    def _request(self, tree: GuidedTree, rollout: Rollout) -> Request:
        problem = tree.problem
        seed = derive_seed(self.params.seed, "search", self.round, problem.problem_id, rollout.row)
        prompt = encode_prompt(self.policy, prompt_of(problem.question, self.params.policy.base))
        return Request(prompt, seed, tree.prefix(rollout.from_node))


def _records(tree: GuidedTree, split: Split) -> list[tuple[Workflow, str]]:
    return [(_record(tree.problem.problem_id, split, found), found.code) for found in tree.found.values()]


def _record(problem_id: str, split: Split, found: Found) -> Workflow:
    name = workflow_id(found.code)
    completions = found.samples + found.rollouts
    return Workflow(
        problem_id=problem_id,
        split=split,
        workflow_id=name,
        path=f"{problem_id}/{name}.py",
        proposer="sample" if found.samples else "tree",
        parent_id=node_id(found.from_node) if found.from_node else None,
        depth=found.leaf.depth,
        visits=len(completions),
        value=rounded(found.reward),
        prior=rounded(max(exp(sum(c.logprobs)) for c in completions)),
        result=found.results[0],
        sibling_results=found.results[1:],
        completions=completions,
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
