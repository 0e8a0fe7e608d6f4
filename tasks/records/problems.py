"""Records of the stage `problems`: a problem, its siblings and its answers."""

from math import isfinite
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, ValidationInfo, field_validator

from tasks.records.record import Record

PROBLEM_ID = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
"""Characters that are safe in a file name: no path leads out of the folder."""

ProblemId = Annotated[str, Field(pattern=PROBLEM_ID)]


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
    siblings: list[Sibling] = Field(default=[])
    evaluator_sha256: str | None = Field(default=None, exclude_if=lambda digest: digest is None)  # of a user's own
    temperature: Annotated[float, Field(gt=0, le=2)] | None = Field(
        default=None, exclude_if=lambda value: value is None
    )
    """Of its completions in search, in place of `search.temperature`."""
    fields: Fields = Field(default={}, exclude_if=not_)

    @field_validator("answer", "siblings")
    @classmethod
    def _check_numbers(cls, value: Any, others: ValidationInfo) -> Any:
        answers = [sibling.answer for sibling in value] if others.field_name == "siblings" else [value]
        if others.data.get("evaluator") == NUMBER and not all(type(answer) in (int, float) for answer in answers):
            raise ValueError("not a number, and the problem names no other evaluator")
        return value

    @property
    def worked_solution(self) -> str | None:
        """The text of its line that works it out: `solution`, as in MATH, or `answer` with ####, as in GSM8K."""
        solution, answer = (self.fields.get(name) for name in ("solution", "answer"))
        if isinstance(solution, str):
            return solution
        return answer if isinstance(answer, str) and "####" in answer else None

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
        alone = self.model_copy(update={"siblings": []})
        return [alone, *(alone.model_copy(update=dict(sibling)) for sibling in self.siblings)]

    def rotated(self, round: int) -> "Problem":
        """The problem with sibling number `round` (0: its own question) in front and the others as its siblings.

        Each round asks another variant, so that memorised answers of the previous round do not help.
        """
        variants = [Sibling(question=self.question, answer=self.answer, fields=self.fields), *self.siblings]
        first = variants.pop(round % len(variants))
        return self.model_copy(update={**dict(first), "siblings": variants})


class WorkedExample(Record):
    """A question and a completion that solves it: a line of `policy.prompt.file` and `bootstrap.demonstrations`."""

    question: str
    completion: str


class Demonstrations(Record):
    """What a warm start learns from besides programs of the environment: `problems/demonstrations.json`."""

    examples: list[WorkedExample] = Field(default=[])  # of a file, or the train problems' own worked solutions
    repeats: list[ProblemId] = Field(default=[])  # train problems that nearly repeat one that is tested on
    tested: list[str] = Field(default=[])  # keys of the questions that are tested on: none is ever learnt


Split = Literal["train", "validation", "test", "dev", "confirm"]
