"""Promotion gate: a paired comparison of a policy and the champion on the same test problems."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tasks.environments.protocol import Gate
from tasks.records.promotion import Promotion
from tasks.statistics.intervals import CONFIDENCE, Estimate, difference_interval


class GateValues(NamedTuple):
    """What an environment's own gate compares, in place of greedy pass@1.

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
    ours, theirs = [float(x) for x in right], [float(x) for x in champion_right]
    rate, champion_rate = sum(ours) / len(ours), sum(theirs) / len(theirs)
    opponent = "the champion's" if champion_version else "the first policy's"
    if own is None:
        difference = difference_interval(ours, theirs, seed)
        better, worse = difference.low > 0, difference.high < 0
        reason = _reason(rate, champion_rate, opponent, difference)
    else:
        difference = difference_interval(own.values, own.champion_values, seed)
        better, reason = _own_reason(own, opponent, difference)
        worse = bool(own.remarks) or (difference.low > 0 if own.gate.lower else difference.high < 0)
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
        version=version,
        champion_version=champion_version,
        measure=None if own is None else own.gate.measure,
        value=None if own is None else _mean(own.values),
        champion_value=None if own is None else _mean(own.champion_values),
    )


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


def _own_reason(own: GateValues, opponent: str, difference: Estimate) -> tuple[bool, str]:
    """Whether the environment's gate is passed, and why."""
    low, high = (-difference.high, -difference.low) if own.gate.lower else (difference.low, difference.high)
    lead = -difference.mean if own.gate.lower else difference.mean
    interval = f"{100 * CONFIDENCE:g} % interval of the lead {low:.3f} … {high:.3f}"
    levels = f"{own.gate.measure} {_mean(own.values):.3f} against {opponent} {_mean(own.champion_values):.3f}"
    if low > 0 and not own.remarks:
        return True, f"promoted: {levels} ({interval})"
    if low > 0:
        return False, f"not promoted: {levels}, but {' and '.join(own.remarks)}"
    verdict = "a lead that may be chance" if lead > 0 else "no lead"
    return False, f"not promoted: {levels}, {verdict} ({interval})"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
