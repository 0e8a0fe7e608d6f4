"""Records of programs that ran in the sandbox: how each ended, and what it returned."""

from operator import not_
from typing import Annotated, Literal

from pydantic import Field

from tasks.records.record import Record

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
