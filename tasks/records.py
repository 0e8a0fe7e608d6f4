"""The typed record of each file that passes between stages.

Every record is one line of a `.jsonl` file (or a whole `.json` file), has no time stamp and no absolute path,
and refuses unknown fields. The same inputs and params give the same bytes.
"""

from operator import not_
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PROBLEM_ID = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
"""A narrow alphabet: it may name a file, and no way leads out of the folder around that."""

ProblemId = Annotated[str, Field(pattern=PROBLEM_ID)]

Number = Annotated[int | float, Field(allow_inf_nan=False)]
"""An answer: finite, and never a bool (strict mode refuses `true`)."""


class Record(BaseModel):
    """Frozen, strict, no unknown fields, no number that is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Sibling(Record):
    """The same problem with other quantities and its own answer."""

    question: str
    answer: Number


class Problem(Record):
    """A question with a checkable answer: a line of `problems/*.jsonl`."""

    problem_id: ProblemId
    question: str
    answer: Number
    source: str  # "generated" or the name of the file that it was read from
    template: str | None = None  # the generator's template; None for problems read from a file
    seen: bool | None = None  # whether train problems come from this template too; None where nobody knows
    operations: int | None = None  # arithmetic operations in the generator's own solution
    siblings: list[Sibling] = []

    @property
    def questions(self) -> tuple[str, ...]:
        """Its own question, then its siblings'."""
        return (self.question, *(sibling.question for sibling in self.siblings))

    @property
    def answers(self) -> list[Number]:
        """Its own answer, then its siblings'."""
        return [self.answer, *(sibling.answer for sibling in self.siblings)]

    def rotated(self, round: int) -> "Problem":
        """The problem with sibling number `round` (0: its own question) in front and the others as its siblings.

        Each round asks another variant, so that memorised answers of the previous round do not help.
        """
        variants = [Sibling(question=self.question, answer=self.answer), *self.siblings]
        first = variants.pop(round % len(variants))
        return self.model_copy(update={"question": first.question, "answer": first.answer, "siblings": variants})


Split = Literal["train", "validation", "test", "dev"]
Status = Literal["ok", "error", "timeout", "memory", "refused", "killed", "failed"]
"""How a program ended: a value, an exception or bad source, too slow, too big, not allowed, died otherwise; failed:
nobody knows, as the sandbox died or a model that it asked gave no reply. That is never scored as wrong."""


class Result(Record):
    """What running a workflow on one question gave. `value` is what it returned, judged by the host later."""

    status: Status
    value: int | float | str | None = None
    error: str | None = None


class Completion(Record):
    """One token path that the policy wrote, with its log-probabilities, both [T].

    They are at the temperature that it was sampled at (at 1 where it is greedy). The last token is the end-of-text
    token unless the completion was cut at its length limit. A revision is written by another: its tokens are the
    policy's for the same text, and `logprobs` is [] = not known.
    """

    tokens: list[int]
    logprobs: list[float]


Proposer = Literal["coldstart", "sample", "tree", "revision"]
"""Who wrote a workflow: the search without a policy, an independent sample, a rollout from inside the tree, or the
operators' model, which revised another workflow or wrote a fresh one."""


class Workflow(Record):
    """A distinct workflow of one problem: a line of `workflows/index.jsonl`."""

    problem_id: ProblemId
    split: Split
    workflow_id: str  # content hash of the code
    code: str
    proposer: Proposer  # who found it first
    parent_id: str | None  # node_id in `trees.jsonl` that it was first written from; None: independently of any
    depth: int  # nodes of its branch of the tree; operations where no tree found it
    visits: int  # completions that wrote it
    value: float  # share of problem and siblings solved
    prior: float  # probability of its likeliest completion; 1 where the policy did not write it
    result: Result
    sibling_results: list[Result]
    completions: list[Completion] = []  # empty where no policy wrote it, and where it is a revision too long to learn
    sampled: int = 0  # the first `sampled` of `completions` are independent samples; the others come from the tree
    perturbed_results: list[Result] = Field(default=[], exclude_if=not_)
    """What it gives where its problem is asked with other quantities; only of right ones without siblings."""


class TreeNode(Record):
    """A node of a search tree: a line of `workflows/trees.jsonl`."""

    problem_id: str
    node_id: str
    parent_id: str | None
    statement: str  # of a revision: what was changed, in the model's words
    depth: int
    visits: int
    value: float  # mean reward of the simulations through this node
    prior: float  # 1 where the policy did not write it
    terminal: bool


class Trajectory(Record):
    """One problem with its group of completions and what running them gave; lists are parallel, length G."""

    problem_id: str
    split: Split
    problem: Problem
    prompt: str
    workflow_codes: list[str]
    workflow_ids: list[str]
    proposers: list[Proposer]
    results: list[Result]
    sibling_results: list[list[Result]]
    tokens: list[list[int]]  # completion tokens; [] = tokenize the code
    logprobs: list[list[float]]  # behaviour log-probabilities; [] = not known, scored before the update
    policy_version: str  # hash of the policy that was in force
    agreement: list[float] = Field(default=[], exclude_if=not_)
    """Length G where the problem has no siblings: what each member's answer counts if it is right. Else []."""


RewardStatus = Literal["ok", "failed", "timeout"]


class RewardedTrajectory(Trajectory):
    """A trajectory with its rewards. Where `reward_status` is not ok, `rewards` holds None: never a 0, never a NaN."""

    rewards: list[float | None]
    reward_terms: dict[str, list[float | None]]
    reward_status: list[RewardStatus]


class Selected(Record):
    """Whether the update may see a sample: a line of `selection.jsonl`."""

    problem_id: str
    member: int  # place in the group, from 0; among those that fit, where `grpo.on_invalid_completion` skips the others
    workflow_id: str
    advantage: float
    influence: float | None  # None: not measured, `influence.selection` is none, or a sample of validation
    gradient_norm: float | None
    selected: bool
    weight: float = 1.0  # what its advantage is multiplied by, if it is selected; other than 1 with `reweight`
    split: Split = "train"  # validation: learned from, too, by `influence.train_on_validation`


Part = Literal["weights", "adapter"]
"""What of a policy its folder holds: `model.safetensors`, `adapter/`, or both."""


class Lineage(Record):
    """Where a policy comes from: `policy/lineage.json`."""

    version: str  # content hash of the policy's weights and of what they were made of
    parent: str | None  # version of the policy that it was updated from, or that its run continues
    base: str  # what it was first made of, however many runs ago: "scratch", a Hugging Face id or a folder
    round: int
    holds: list[Part]  # weights: the model's own are in the folder, else they are those of `base`
    base_sha256: str | None = None  # of the folder that `base` names


class ProblemOutcome(Record):
    """How one test problem went: a line of `evaluation/*/outcomes.jsonl`."""

    problem_id: str
    template: str | None
    seen: bool | None
    greedy: bool  # the greedy completion's answer is right
    siblings_passed: bool | None  # and right on every sibling; None without siblings
    samples: int  # n
    correct: int  # c of n
    invalid: int  # of n: ended in an error
    timeouts: int  # of n
    distinct: int  # different programs among the n
    wrong: list[int] = []  # of n: how many gave each wrong answer, the most frequent first; the others gave none
    operations: int | None = None  # in the generator's own solution; None where nobody knows


class Standing(Record):
    """How a round's policy did on the dev problems: a line of `rounds/*/standings.jsonl`, below the earlier rounds'."""

    round: int
    version: str
    policy_sha256: str  # of its folder
    samples: Annotated[int, Field(ge=1)]  # n
    correct: Annotated[list[int], Field(min_length=1)]  # of n, for each dev problem

    @property
    def pass_at_1(self) -> float:
        return sum(self.correct) / (self.samples * len(self.correct))


class Choice(Record):
    """The round whose policy the run ends with: `run/best.json`."""

    round: int
    version: str
    reason: str  # one line for people


class Attempt(Record):
    """A distinct workflow that the policy wrote for a test problem: a line of `evaluation/*/attempts.jsonl`."""

    problem_id: str
    code: str
    greedy: bool  # the greedy completion is this workflow
    samples: int  # so many of the n samples are it
    right: bool  # its answer to the problem
    siblings_passed: bool | None  # and to every sibling; None: it was not run on siblings
    result: Result  # on the problem's own question


class Promotion(Record):
    """Whether a run's policy became the champion, and why: `run/promotion.json`."""

    promoted: bool
    reason: str  # one line for people
    pass_at_1: float  # greedy, on the test problems
    champion_pass_at_1: float
    difference: float  # of the two, with its interval
    low: float
    high: float
    version: str
    champion_version: str | None  # None: there was no champion, the policy that the run started from stood in


class Champion(Record):
    """The best promoted policy: `champion/champion.json`."""

    version: str
    test_sha256: str  # of the test problems that `champion/outcomes.jsonl` was measured on
    environment: str = Field(default="workflow", exclude_if=lambda name: name == "workflow")  # that it was trained in


SuccessionKind = Literal["promoted", "rolled back", "reinstated"]
"""How a policy became champion; reinstated: a rollback that took it back was itself taken back."""


class Succession(Record):
    """One policy after another as champion: a line of `champion/history.jsonl`."""

    version: str  # the champion from now on
    replaced: str | None  # the champion until now; None: there was none
    how: SuccessionKind
    reason: str  # one line for people
    time: str  # UTC, as in 2026-11-22T18:00:00Z
