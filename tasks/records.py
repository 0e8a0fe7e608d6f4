"""Typed records of all files that stages exchange.

A record is one line of a `.jsonl` file (or a complete `.json` file), has no time stamp and no absolute path, and
rejects unknown fields. The same inputs and params give the same bytes.
"""

from math import isfinite
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationInfo, field_validator

PROBLEM_ID = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
"""Characters that are safe in a file name: no path leads out of the folder."""

ProblemId = Annotated[str, Field(pattern=PROBLEM_ID)]

Number = int | float
"""In a Record a finite number, and never a bool (strict mode refuses `true`)."""


def _check_finite(value: Any) -> Any:
    """pydantic refuses NaN in JSON where a float is declared, not in a JsonValue."""
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not finite")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_finite(inner)
    return value


Answer = Annotated[JsonValue, AfterValidator(_check_finite)]
"""The expected answer, in the form that its evaluator reads: a number, a text, a list of accepted ones …"""

Fields = Annotated[dict[str, JsonValue], AfterValidator(_check_finite)]
"""The other columns of a line of a user's file; tasks/problems/row.py bounds them."""

NUMBER = "number"
"""The evaluator of problems that name none; tasks/evaluators/scores.py has the others."""


class Record(BaseModel):
    """Frozen, strict, without unknown fields, NaN or infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Novelty = Literal["phrasing", "composition"]
"""What no train problem has: these events in these words, or in this order. The parts occur in train."""


class Sibling(Record):
    """The same problem with other quantities and its own answer, or in other words or with another context."""

    question: str
    answer: Answer
    fields: Fields = Field(default={}, exclude_if=not_)


class Problem(Record):
    """A question with a checkable answer: a line of `problems/*.jsonl`."""

    problem_id: ProblemId
    evaluator: str = Field(default=NUMBER, exclude_if=lambda name: name == NUMBER)  # or one of tasks/evaluators
    question: str  # the text that a policy and its workflows read, a context in front: operators/builtin.py
    answer: Answer
    source: str  # "generated" or the name of the file that it was read from
    template: str | None = None  # the generator's template; None for problems read from a file
    seen: bool | None = None  # whether train problems come from this template too; None if unknown
    novelty: Novelty | None = Field(default=None, exclude_if=lambda novelty: novelty is None)  # of an unseen one
    operations: int | None = None  # arithmetic operations in the generator's own solution
    siblings: list[Sibling] = []
    evaluator_sha256: str | None = Field(default=None, exclude_if=lambda digest: digest is None)  # of a user's own
    temperature: Annotated[float, Field(gt=0, le=2)] | None = Field(default=None, exclude_if=lambda own: own is None)
    """Of its completions in search, in place of `search.temperature`."""
    fields: Fields = Field(default={}, exclude_if=not_)

    @field_validator("answer", "siblings")
    @classmethod
    def _check_numbers(cls, given: Any, others: ValidationInfo) -> Any:
        answers = [sibling.answer for sibling in given] if others.field_name == "siblings" else [given]
        if others.data.get("evaluator") == NUMBER and not all(type(answer) in (int, float) for answer in answers):
            raise ValueError("not a number, and the problem names no other evaluator")
        return given

    @property
    def questions(self) -> tuple[str, ...]:
        """Its own question, then its siblings'."""
        return (self.question, *(sibling.question for sibling in self.siblings))

    @property
    def answers(self) -> list[Answer]:
        """Its own answer, then its siblings'."""
        return [self.answer, *(sibling.answer for sibling in self.siblings)]

    @property
    def answers_vary(self) -> bool:
        """True if a sibling has another answer than the problem: then no constant solves all of them."""
        return any(sibling.answer != self.answer for sibling in self.siblings)

    @property
    def numbers(self) -> list[int | float]:
        """`answers`, where the evaluator is `number`; [] for other evaluators."""
        return [answer for answer in self.answers if self.evaluator == NUMBER and isinstance(answer, int | float)]

    @property
    def variants(self) -> list["Problem"]:
        """Itself, then each sibling in its place, all without siblings: what a result is checked against."""
        own = self.model_copy(update={"siblings": []})
        return [own, *(own.model_copy(update=dict(sibling)) for sibling in self.siblings)]

    def rotated(self, round: int) -> "Problem":
        """The problem with sibling number `round` (0: its own question) in front and the others as its siblings.

        Each round asks another variant, so that memorised answers of the previous round do not help.
        """
        variants = [Sibling(question=self.question, answer=self.answer, fields=self.fields), *self.siblings]
        first = variants.pop(round % len(variants))
        return self.model_copy(update={**dict(first), "siblings": variants})


Split = Literal["train", "validation", "test", "dev"]
Status = Literal[
    "ok",  # it returned a value
    "error",  # it raised an exception, or its source is invalid
    "timeout",  # it exceeded the time limit
    "memory",  # it exceeded the memory limit
    "refused",  # it was not run because it is not allowed
    "killed",  # it died in another way
    "failed",  # unknown, since the sandbox died or a model gave no reply; never scored as wrong
]
"""How a program ended."""


class CheckVerdict(Record):
    """Checks that a completion has passed, of all: hidden ones, by which it is rewarded, and shown ones.

    It is the value of a result where an environment tries completions out: `judge` in tasks/environments/protocol.py.
    """

    hidden_passed: Annotated[int, Field(ge=0)]
    hidden: Annotated[int, Field(ge=0)]
    shown_passed: Annotated[int, Field(ge=0)]
    shown: Annotated[int, Field(ge=0)]
    ending: str = Field(default="", exclude_if=not_)  # why the checks after the last that passed were not made

    def __str__(self) -> str:
        """`5/7 hidden, 2/2 shown, out of time`, without the hidden ones if there are none."""
        hidden = f"{self.hidden_passed}/{self.hidden} hidden" if self.hidden else ""
        return ", ".join(filter(None, (hidden, f"{self.shown_passed}/{self.shown} shown", self.ending)))

    __repr__ = __str__


class Result(Record):
    """Result of running a workflow on one question. `value` is what it returned; the host checks it later."""

    status: Status
    value: int | float | str | CheckVerdict | None = None  # a verdict in place of what was tried out
    error: str | None = None
    calls: Annotated[int, Field(ge=0)] = Field(default=0, exclude_if=not_)  # of a model, by operators
    prompt_tokens: Annotated[int, Field(ge=0)] = Field(default=0, exclude_if=not_)  # of these calls
    completion_tokens: Annotated[int, Field(ge=0)] = Field(default=0, exclude_if=not_)


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
    completions: list[Completion] = []  # empty if no policy wrote it
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


AuditAnswer = Literal["right", "err", "unclear"]
"""`right`: a tenth of wrong rewards would have been noticed."""


class AuditShare(Record):
    """The share of rewards of one kind that contradict what validation's say, and its excess over validation's own."""

    name: str
    contradicted: float
    excess: float


REMEDY = (
    "As good as dropping: a file of the checked lines alone (-S problems.path=FILE -S problems.validation=1 "
    "-S influence.selection=none); half as good: keys by majority, which need no checked line; docs/influence.md"
)
"""Other remedies where rewards err."""


class RewardAudit(Record):
    """What the audit of a round's training rewards found: `audit.json` next to its validation completions."""

    answer: AuditAnswer
    wrong: float  # estimated share of wrong training rewards, from 0 to 1
    error: float  # standard error of it
    contradicted: float  # share of training's rewards …
    expected: float  # … and of validation's, by a model without the problem
    problems: int  # of validation
    needed: int  # validation problems that would make it clear; 0 unless `answer` is unclear
    terms: list[AuditShare] = []  # of the reward, if it has several; this and the next only where rewards err
    templates: list[AuditShare] = []  # or sources of problems, the largest excess first

    @property
    def sentence(self) -> str:
        """The answer in words."""
        shares = f"{self.contradicted:.1%} of them contradict validation, {self.expected:.1%} of its own do"
        if self.answer == "right":
            return f"rewards look right: {shares}"
        if self.answer == "err":
            return f"rewards err, about {self.wrong:.0%} of them (± {1.96 * self.error:.0%}): {shares}"
        return f"cannot tell whether rewards err; problems.validation and influence.n of about {self.needed} would tell"


class Selected(Record):
    """Selection of a sample for the update: a line of `selection.jsonl`."""

    problem_id: str
    member: int  # index in the group
    workflow_id: str
    advantage: float
    influence: float | None  # None: not measured, `influence.selection` is none, or a sample of validation
    gradient_norm: float | None
    selected: bool
    split: Split = "train"  # validation: trained on because of `influence.train_on_validation`


Part = Literal["weights", "adapter"]
"""Part of a policy in its folder: `model.safetensors` or `adapter/`."""

Dtype = Literal["float32", "bfloat16"]
Quantization = Literal["nf4"]
"""Types of a base's weights in memory."""

PromptStyle = Literal["chat", "turns", "plain", "raw"]
"""chat: one message in the chat template; turns: examples as earlier turns; plain: text; raw: the question alone."""


class Lineage(Record):
    """Origin of a policy: `policy/lineage.json`."""

    version: str  # hash of the policy's weights and of their origin
    parent: str | None  # version of the policy that was updated, or that the run continues
    base: str  # the original base, over all runs: "scratch", a Hugging Face id, a folder or a GGUF file
    round: int
    holds: list[Part]  # weights: the model's own are in the folder, else those of `base` are used
    base_sha256: str | None = None  # of the folder or file `base`
    quantize: Quantization | None = Field(default=None, exclude_if=not_)  # of the base's weights, below the adapter
    dtype: Dtype | None = Field(default=None, exclude_if=not_)  # of the base; None: by the device, `policy.dtype: auto`
    files: dict[str, str] | None = Field(default=None, exclude_if=not_)  # name → sha256; None: of an older policy


class PromptFormat(Record):
    """Form of the prompts of a policy that has a base: `policy/prompt.json`.

    A prompt is `before`, the question as the environment asks it, `after`, and `prefill`: the beginning of every
    completion, which is not sampled. Quoted control tokens in `before` are marked (tasks/model/control_tokens.py).
    """

    style: PromptStyle
    examples: int  # worked examples in `before`
    instructions: bool  # the question is asked with the environment's instructions
    before: str
    after: str
    prefill: str
    stop: list[str]  # texts that end a completion


class ProblemOutcome(Record):
    """Result of one test problem: a line of `evaluation/*/outcomes.jsonl`."""

    problem_id: str
    template: str | None
    seen: bool | None
    greedy: bool  # the greedy completion's answer is right
    siblings_passed: bool | None  # and on every sibling; None without siblings
    samples: int  # n
    correct: int  # c of n
    invalid: int  # of n: ended in an error
    timeouts: int  # of n
    distinct: int  # distinct programs among the n
    wrong: list[int] = []  # counts of each wrong answer among the n, largest first; the others gave none
    operations: int | None = None  # in the generator's own solution; None if unknown
    cut: int = 0  # of n: cut at policy.max_new_tokens
    novelty: Novelty | None = Field(default=None, exclude_if=lambda novelty: novelty is None)  # the problem's
    gate_value: float | None = Field(default=None, exclude_if=lambda value: value is None)
    """The measure that the environment's promotion gate compares, if it has one: the mean over the samples."""


class Standing(Record):
    """Result of a round's policy on the dev problems: a line of `rounds/*/standings.jsonl`, after earlier rounds'."""

    round: int
    version: str
    policy_sha256: str  # of its folder
    samples: Annotated[int, Field(ge=1)]  # n
    correct: Annotated[list[int], Field(min_length=1)]  # of n, for each dev problem

    @property
    def pass_at_1(self) -> float:
        return sum(self.correct) / (self.samples * len(self.correct))


class Choice(Record):
    """The round whose policy is the result of the run: `run/best.json`."""

    round: int
    version: str
    reason: str  # one line for people


class Attempt(Record):
    """A distinct workflow written for a test problem: a line of `evaluation/*/attempts.jsonl`."""

    problem_id: str
    code: str
    greedy: bool  # the greedy completion is this workflow
    samples: int  # number of the n samples equal to it
    right: bool  # its answer to the problem
    siblings_passed: bool | None  # and to every sibling; None: not run on siblings
    result: Result  # on the problem's own question
    cut: int = 0  # number of the samples that were cut at policy.max_new_tokens
    picture: str | None = Field(default=None, exclude_if=lambda svg: svg is None)  # of a greedy one, by the environment
