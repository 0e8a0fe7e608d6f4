"""Records of the stage `select`: the samples that the update sees, and the audit of the rewards."""

from typing import Literal

from pydantic import Field

from tasks.records.problems import Split
from tasks.records.record import Record

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
    terms: list[AuditShare] = Field(
        default=[]
    )  # of the reward, if it has several; this and the next only where rewards err
    templates: list[AuditShare] = Field(default=[])  # or sources of problems, the largest excess first

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
