"""The nights: 30 with a run, and two weeks of downtime after the fifteenth."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Result = Literal["promoted", "kept", "waits", "nothing new", "failed", "killed", "down"]
"""What a night has to come to."""

Event = Literal[
    "store away",
    "server away",
    "serve killed",
    "run killed",
    "disk full",
    "experiment deleted",
    "params broken",
    "power cut",
    "upgrade",
    "approval: person",
    "approved",
    "approval: auto",
    "rolled back",
    "other source",
]


class Night(NamedTuple):
    """A night. `solved`: of 40 test problems, by what the night's new problems teach; None: there are none."""

    solved: int | None
    result: Result
    alerts: Sequence[str] = ()
    event: Event | None = None
    err: bool = False  # rewards err


DOWN = Night(None, "down")

PLAN = [
    Night(20, "promoted", ["policy promoted"]),
    Night(21, "kept"),
    Night(None, "nothing new"),
    Night(8, "kept", ["policy worse"]),
    Night(22, "kept", event="store away"),
    Night(30, "promoted", ["policy promoted"]),  # the clock goes back: 2:30 comes twice
    Night(30, "kept", event="server away"),
    Night(29, "kept", event="serve killed"),
    Night(31, "killed", ["run killed"], "run killed"),
    Night(31, "kept"),
    Night(31, "failed", ["run failed"], "disk full"),
    Night(30, "kept"),
    Night(29, "kept", event="experiment deleted"),
    Night(30, "kept", ["rewards err"], err=True),
    Night(31, "failed", ["run failed"], "params broken"),
    *[DOWN] * 14,
    Night(31, "kept", ["runs missed", "champion unbeaten"], "power cut"),
    Night(30, "kept", ["contract broken"], "other source"),
    Night(None, "nothing new"),
    Night(38, "waits", ["policy waits"], "approval: person"),
    Night(30, "kept"),
    Night(37, "kept", event="approved"),
    Night(38, "kept", event="approval: auto"),
    Night(38, "kept", event="upgrade"),
    Night(26, "kept", ["policy worse"], "rolled back"),
    Night(30, "kept"),
    Night(31, "kept"),
    Night(32, "kept"),  # the clock goes forward: there is no 2:30
    Night(40, "promoted", ["policy promoted"]),
    Night(40, "kept"),
    Night(None, "nothing new"),
]

NIGHTS = {number: night for number, night in enumerate(PLAN) if night is not DOWN}
"""Those with a run, by their numbers."""
