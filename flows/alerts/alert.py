"""Alerts of scheduled runs: their kinds, and when a record raises one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from flows.history.run_history import Entry
from tasks.records.promotion import Promotion
from tasks.records.record import Record
from tasks.records.selection import RewardAudit
from tasks.statistics.alarms import Alarm

Kind = Literal[
    "run.failed",
    "run.killed",  # found by the next run, or when `graft serve` starts
    "runs.missed",  # at a scheduled time no run began until the next one
    "policy.promoted",
    "policy.waits",  # for a person's approval
    "policy.worse",  # than the champion, by more than chance
    "champion.unbeaten",
    "rewards.err",  # as the audit found
    "rewards.mislead",  # they rise while the policy gets worse
    "policy.collapses",  # its completions are hardly different, or none is right any more
    "test.small",  # too few problems to see a better policy
    "contract.broken",  # by new problem files
    "test",
]
"""The name of the Prefect event without its `graft.`; with spaces, the title of the message."""


class Alert(NamedTuple):
    """What a person is to know."""

    kind: Kind
    line: str
    run: int | None = None  # its number in the history


SMALL = 0.25
"""Smallest lead that a test set can show from which it is too small: some 25 problems, if policies differ on 5."""


class Memory(Record):
    """What later alerts depend on: `.graft/alerts.json`."""

    until: datetime | None = None  # scheduled times from here on have not been examined
    schedules: tuple[str, ...] = ()  # by then, as JSON of Prefect's
    champion: str | None = None  # that the last scheduled run was compared with, or that it made
    unbeaten: int = 0  # scheduled runs since then that did not beat it
    small_test: int | None = None  # problems of the test set that the last run called too small


def alert_of(kind: Kind, entry: Entry, line: str) -> Alert:
    """An alert of a run."""
    return Alert(kind, f"{entry.name}: {line}", entry.number)


def missed_alerts(times: Sequence[datetime]) -> list[Alert]:
    """One for all scheduled times `times`, the oldest first, since the last run; that of the last may still begin."""
    missed = [time.astimezone().strftime("%Y-%m-%d %H:%M") for time in times[:-1]]
    if not missed:
        return []
    first, last = missed[0], missed[-1]
    when = f" at {first}" if first == last else f"s from {first} to {last}"
    return [Alert("runs.missed", f"{len(missed)} scheduled run{when} did not take place")]


def result_alerts(
    entry: Entry,
    promotion: Promotion,
    audits: Mapping[int, RewardAudit],
    alarms: Mapping[Alarm, Sequence[str]],
    memory: Memory,
    limit: int | None,
) -> tuple[list[Alert], Memory]:
    """The alerts of a run that succeeded, and what is to be remembered of it.

    `audits`: by round. `alarms`: `training_alarms` of its rounds.

    `limit`: an alert after this number of runs in a row that did not beat the champion, and after each further one;
    None: never.
    """
    is_same = promotion.champion_version == memory.champion
    is_better = promotion.promoted or promotion.approval == "waits"
    unbeaten = 0 if is_better else 1 + (memory.unbeaten if is_same else 0)
    champion = promotion.version if promotion.promoted else promotion.champion_version
    alerts = []
    if promotion.promoted and promotion.version != memory.champion:
        alerts.append(alert_of("policy.promoted", entry, promotion.reason))
    if promotion.approval == "waits":
        alerts.append(alert_of("policy.waits", entry, promotion.reason))
    if promotion.worse:
        alerts.append(alert_of("policy.worse", entry, promotion.reason))
    if champion and limit and unbeaten and unbeaten % limit == 0:
        line = f"in the last {unbeaten} scheduled runs no policy was better than the champion {champion}"
        alerts.append(alert_of("champion.unbeaten", entry, line))
    erring = [f"round {round}: {audit.sentence}" for round, audit in audits.items() if audit.answer == "err"]
    if erring:
        alerts.append(alert_of("rewards.err", entry, "; ".join(erring)))
    alerts += [alert_of(kind, entry, "; ".join(lines)) for kind, lines in alarms.items() if lines]
    is_small = not is_better and promotion.detectable is not None and promotion.detectable > SMALL
    small_test = promotion.problems if is_small else None
    if small_test and small_test != memory.small_test:  # once, not each night
        alerts.append(alert_of("test.small", entry, f"{promotion.power} Raise problems.test"))
    update = {"champion": champion, "unbeaten": unbeaten, "small_test": small_test}
    return alerts, memory.model_copy(update=update)
