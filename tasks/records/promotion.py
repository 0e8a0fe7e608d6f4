"""Records of the stage `promote` and its commands: the decision, the champion and its successions."""

from operator import not_
from typing import Literal

from pydantic import Field

from tasks.records.problems import Problem
from tasks.records.record import Record

Approval = Literal["waits", "person"]
"""With `promotion.approve` person: a better policy waits for approval, or a person has approved."""


class KeptSet(Record):
    """Test problems on which a policy became champion: a line of `champion/kept.jsonl`."""

    name: str  # where they are from, and the beginning of its version: `a.jsonl (2864c512)`
    problems: list[Problem]


class KeptResult(Record):
    """A policy and the champion on a kept set."""

    name: str
    problems: int
    value: float  # of what the gate compares: pass@1 greedy, or the measure of an environment's own
    champion_value: float
    difference: float
    low: float
    high: float
    lost: bool  # it may be worse by more than `promotion.margin`
    worse: bool  # by more than chance


class Confirmation(Record):
    """A better policy and its opponent on problems that no gate has seen."""

    problems: int
    fresh: bool  # written for this policy; else lines of a file that are used for nothing else
    uses: int  # the most policies that one of the problems was used for, with this one
    difference: float  # of what the gate compares
    low: float  # with `high`: its interval of 90 %, so that it is above `low` with 95 %
    high: float


class Promotion(Record):
    """Decision whether a run's policy becomes the champion: `run/promotion.json`."""

    promoted: bool
    approval: Approval | None = Field(default=None, exclude_if=lambda value: value is None)
    reason: str  # one line for people
    pass_at_1: float  # greedy, on the test problems
    champion_pass_at_1: float
    difference: float  # of what is compared, with its interval: of pass@1, or of `measure`
    low: float
    high: float
    kept: list[KeptResult] = Field(default=[], exclude_if=not_)  # on the kept sets, with `promotion.keep`
    worse: bool = Field(default=False, exclude_if=not_)  # by more than chance, or a measure that the gate keeps is lost
    version: str
    champion_version: str | None  # None: there was no champion; compared with the run's initial policy
    problems: int | None = Field(default=None, exclude_if=lambda own: own is None)  # that both were tested on
    detectable: float | None = Field(default=None, exclude_if=lambda own: own is None)  # least lead that they show
    confirmation: Confirmation | None = Field(default=None, exclude_if=lambda own: own is None)
    measure: str | None = Field(default=None, exclude_if=lambda own: own is None)  # of a gate other than greedy pass@1
    value: float | None = Field(default=None, exclude_if=lambda own: own is None)  # its mean, over the samples
    champion_value: float | None = Field(default=None, exclude_if=lambda own: own is None)

    @property
    def lead(self) -> tuple[float, float, float]:
        """The lead with its interval; the confirmed one, if there is: that by which it was chosen is too high."""
        found = self.confirmation or self
        return found.difference, found.low, found.high

    @property
    def power(self) -> str:
        """The smallest lead that the test problems could have shown, in words; "" where it is not known."""
        if self.problems is None or self.detectable is None:
            return ""
        return (
            f"The smallest lead that {self.problems:,} test problems like these show (4 times of 5): "
            f"{self.detectable:.3f}; a third of it takes {9 * self.problems:,}."
        )


class Champion(Record):
    """The best promoted policy: `champion/champion.json`."""

    version: str
    test_sha256: str  # of the test problems of `champion/outcomes.jsonl`
    environment: str | None = None  # that it was trained in; champions before there were several name none


class Latest(Record):
    """The policy that the next scheduled run starts from: `latest/latest.json`."""

    version: str
    champion: str | None  # version of the champion by then; None: there was none
    environment: str | None  # as in `Champion`


SuccessionKind = Literal["promoted", "approved", "rolled back"]
"""How a policy became champion; `approved`: by a person."""


class Succession(Record):
    """One policy after another as champion: a line of `champion/history.jsonl`."""

    version: str  # the champion from now on
    replaced: str | None  # the champion until now; None: there was none
    how: SuccessionKind
    reason: str  # one line for people
    time: str  # UTC, as in 2026-11-22T18:00:00Z
