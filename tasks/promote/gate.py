"""Promotion gate: a paired comparison of a policy and the champion on the same test problems, which a second one on
problems that no gate has seen confirms.

Of thirty nights one passes the first by chance (docs/results/2026-11-29-months.md), and its lead is too high because it
was chosen for it (the winner's curse); the second is of this one policy alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tasks.environments.protocol import Gate
from tasks.records.promotion import Confirmation, Promotion
from tasks.statistics.intervals import CONFIDENCE, Estimate, detectable_difference, difference_interval

SAMPLED = Gate("pass@1 sampled", lower=False, kept={})
"""What `promotion.measure` sampled compares, in an environment without a gate of its own."""

ONE_SIDED = 2 * CONFIDENCE - 1
"""Confidence of the interval whose lower end a lead exceeds with CONFIDENCE."""

FEWEST = 30
"""Fewer problems confirm nothing."""


class GateValues(NamedTuple):
    """What is compared in place of greedy pass@1, by the environment's own gate or SAMPLED.

    `values` and `champion_values` [M]: the measure on each test problem, over its samples. `remarks`: `kept_remarks`.
    """

    gate: Gate
    values: Sequence[float]
    champion_values: Sequence[float]
    remarks: Sequence[str]


def decide_promotion(
    right: Sequence[bool],
    champion_right: Sequence[bool],
    version: str,
    champion_version: str | None,
    seed: int,
    rollback_reason: str | None = None,
    own: GateValues | None = None,
) -> Promotion:
    """Promote if the interval of the mean difference lies above 0 and the policy was not rolled back before.

    `right` and `champion_right` [M]: whether the greedy completion solved each test problem; ValueError if their
    lengths differ. `rollback_reason`: the reason of an earlier rollback of this policy, if any. `own`: compared
    instead; where less is better the interval must lie below 0, and there must be no remark. It is `worse` with a
    remark, or where the interval lies on the other side.
    """
    rate, champion_rate = sum(right) / len(right), sum(champion_right) / len(champion_right)
    opponent = "the champion's" if champion_version else "the first policy's"
    ours, theirs = _compared(right, champion_right, own)
    difference = difference_interval(ours, theirs, seed)
    lead, remarks = _lead(difference, own), own.remarks if own else ()
    better, worse = lead.low > 0 and not remarks, lead.high < 0 or bool(remarks)
    reason = _own_reason(own, opponent, lead) if own else _reason(rate, champion_rate, opponent, lead)
    if version == champion_version:
        reason = "not promoted: this policy is the champion already"
    if rollback_reason is not None:
        reason = (
            f"not promoted: was champion and was taken back ({rollback_reason}); graft rollback {version} puts it back"
        )
    return Promotion(
        promoted=better and rollback_reason is None,
        reason=reason,
        pass_at_1=rate,
        champion_pass_at_1=champion_rate,
        difference=difference.mean,
        low=difference.low,
        high=difference.high,
        worse=worse,
        problems=len(ours),
        detectable=detectable_difference(ours, theirs),
        version=version,
        champion_version=champion_version,
        measure=None if own is None else own.gate.measure,
        value=None if own is None else _mean(own.values),
        champion_value=None if own is None else _mean(own.champion_values),
    )


def confirm_promotion(
    decision: Promotion,
    right: Sequence[bool],
    champion_right: Sequence[bool],
    seed: int,
    fresh: bool,
    uses: int = 1,
    own: GateValues | None = None,
) -> Promotion:
    """The decision on a policy that has passed the gate, once both were measured on C problems that no gate has seen.

    `right`, `champion_right` [C] and `own` as for `decide_promotion`; `fresh` and `uses` as in `Confirmation`. Promoted
    is what leads there too, with CONFIDENCE on one side.
    """
    found = difference_interval(*_compared(right, champion_right, own), seed, confidence=ONE_SIDED)
    lead = _lead(found, own)
    where = f"{len(right)} {'new problems' if fresh else f'problems set aside (use {uses})'}"
    sure = f"{100 * CONFIDENCE:g} % sure of {lead.low:.3f} or more"
    no = "" if lead.low > 0 else "not "
    reason = f"{no}{decision.reason}; {no}confirmed: by {lead.mean:.3f} on {where} ({sure})"
    ends = {"difference": found.mean, "low": found.low, "high": found.high}
    confirmation = Confirmation(problems=len(right), fresh=fresh, uses=uses, **ends)
    return decision.model_copy(update={"promoted": lead.low > 0, "reason": reason, "confirmation": confirmation})


def _compared(
    right: Sequence[bool], champion_right: Sequence[bool], own: GateValues | None
) -> tuple[Sequence[float], Sequence[float]]:
    """The values of the policy and of the champion on each problem."""
    return (own.values, own.champion_values) if own else ([*map(float, right)], [*map(float, champion_right)])


def _lead(difference: Estimate, own: GateValues | None) -> Estimate:
    """The difference, above 0 where the policy is the better one."""
    is_lower = own is not None and own.gate.lower
    return Estimate(-difference.mean, -difference.high, -difference.low) if is_lower else difference


def kept_remarks(gate: Gate, before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """A remark for each measure of which training left less than the gate's share.

    `before` and `after`: measures of the samples of the run's first and final policy, by name.
    """
    return [
        f"{name} is {after[name]:.3f}, less than {share:g} of the first policy's {before[name]:.3f}"
        for name, share in gate.kept.items()
        if after[name] < share * before[name]
    ]


def _reason(rate: float, champion_rate: float, opponent: str, difference: Estimate) -> str:
    interval = f"{100 * CONFIDENCE:g} % interval {difference.low:.3f} … {difference.high:.3f}"
    versus = f"{opponent} {champion_rate:.3f}"
    if difference.low > 0:
        return f"promoted: {rate:.3f} beats {versus} by {difference.mean:.3f} ({interval})"
    if difference.mean > 0:
        return f"not promoted: {rate:.3f} against {versus}, a lead that may be chance ({interval} of the difference)"
    return f"not promoted: {rate:.3f} is not above {versus} ({interval} of the difference)"


def _own_reason(own: GateValues, opponent: str, lead: Estimate) -> str:
    interval = f"{100 * CONFIDENCE:g} % interval of the lead {lead.low:.3f} … {lead.high:.3f}"
    levels = f"{own.gate.measure} {_mean(own.values):.3f} against {opponent} {_mean(own.champion_values):.3f}"
    if lead.low > 0 and not own.remarks:
        return f"promoted: {levels} ({interval})"
    if lead.low > 0:
        return f"not promoted: {levels}, but {' and '.join(own.remarks)}"
    verdict = "a lead that may be chance" if lead.mean > 0 else "no lead"
    return f"not promoted: {levels}, {verdict} ({interval})"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
