"""Records of the stage `search`: completions, the workflows in them, and the nodes of the trees."""

from operator import not_
from typing import Literal

from pydantic import Field

from tasks.records.problems import Problem, ProblemId, Split
from tasks.records.programs import Result
from tasks.records.record import Record


class Completion(Record):
    """Tokens of one completion and their log-probabilities, both [T].

    Log-probabilities are at the sampling temperature (at 1 for greedy decoding). The last token is the end-of-text
    token unless the completion was cut at its length limit.
    """

    tokens: list[int]
    logprobs: list[float]
    kept: list[list[int]] = Field(default=[], exclude_if=not_)
    """With `search.top_p` or `top_k`, [T][…]: the tokens over which each log-probability is normalised. [] = all."""

    def until(self, end: int) -> "Completion":
        """Its first `end` tokens."""
        return Completion(tokens=self.tokens[:end], logprobs=self.logprobs[:end], kept=self.kept[:end])


Proposer = Literal["coldstart", "sample", "tree"]
"""Origin of a workflow: the search without a policy, an independent sample, or a rollout from a node of the tree."""


class Workflow(Record):
    """A distinct workflow of one problem: a line of `workflows/index.jsonl`."""

    problem_id: ProblemId
    split: Split
    workflow_id: str  # content hash of the code
    code: str
    proposer: Proposer  # the first to find it
    parent_id: str | None  # node_id in `trees.jsonl` from which it was first written; None: from no node
    depth: int  # nodes of its branch of the tree; operations if no tree found it
    visits: int  # completions that wrote it
    value: float  # share of problem and siblings solved
    prior: float  # probability of its most likely completion; 1 if the policy did not write it
    result: Result
    sibling_results: list[Result]
    completions: list[Completion] = Field(default=[])  # empty if no policy wrote it
    sampled: int = 0  # the first `sampled` of `completions` are independent samples; the others come from the tree
    perturbed_results: list[Result] = Field(default=[], exclude_if=not_)
    """Its results on its question with other quantities; only for right workflows of a problem with one answer."""


class TreeNode(Record):
    """A node of a search tree: a line of `workflows/trees.jsonl`."""

    problem_id: str
    node_id: str
    parent_id: str | None
    statement: str
    depth: int
    visits: int
    value: float  # mean reward of the simulations through this node
    prior: float  # 1 if the policy did not write it
    terminal: bool


class Engine(Record):
    """A server's program that sampled the policy: `workflows/engine.json`, where Graft did not sample itself."""

    name: str
    version: str  # as the server reports it
    dtype: str  # the param `vllm`

    def __str__(self) -> str:
        return f"{self.name} {self.version} {self.dtype}"


class AskedProblem(Record):
    """A problem as a round asks it: a line of `workflows/problems.jsonl`, in the order of `index.jsonl`."""

    split: Split
    problem: Problem  # in the round's rotation, with the siblings that its completions are checked on
    prompt: str
    prompt_tokens: list[int]  # the policy's

    @property
    def problem_id(self) -> str:
        return self.problem.problem_id
