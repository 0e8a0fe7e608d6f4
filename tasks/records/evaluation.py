"""Records of the stages `validate`, `choose`, `evaluate` and `baselines`: results on the dev and the test problems."""

from typing import Annotated

from pydantic import Field

from tasks.records.problems import Novelty
from tasks.records.programs import Result
from tasks.records.record import Record


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
    wrong: list[int] = Field(default=[])  # counts of each wrong answer among the n, largest first; the others gave none
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


class StoredWorkflow(Record):
    """A workflow of the rounds, tried on all test problems: a line of `baselines/workflows.jsonl`, in this order."""

    code: str
    train_solved: int  # train problems that it solved, and none before it
    right: list[bool]  # on each test problem
