"""Promotion gate: a paired comparison of a policy and the champion on the same test problems."""

from collections.abc import Sequence

from tasks.params.sections import Evaluation
from tasks.promotion_records import Promotion
from tasks.statistics.intervals import Estimate, difference_interval


def decide_promotion(
    right: Sequence[bool],
    champion_right: Sequence[bool],
    version: str,
    champion_version: str | None,
    params: Evaluation,
    seed: int,
    rollback_reason: str | None = None,
) -> Promotion:
    """Promote if the interval of the mean difference lies above 0 and the policy was not rolled back before.

    `right` and `champion_right` [M]: whether the greedy completion solved each test problem; ValueError if their
    lengths differ. `rollback_reason`: the reason of an earlier rollback of this policy, if any.
    """
    ours, theirs = [float(x) for x in right], [float(x) for x in champion_right]
    difference = difference_interval(ours, theirs, params.resamples, params.confidence, seed)
    rate, champion_rate = sum(ours) / len(ours), sum(theirs) / len(theirs)
    opponent = "the champion's" if champion_version else "the first policy's"
    reason = _reason(rate, champion_rate, opponent, difference, params.confidence)
    if version == champion_version:
        reason = "not promoted: this policy is the champion already"
    if rollback_reason is not None:
        reason = (
            f"not promoted: was champion and was taken back ({rollback_reason}); graft rollback {version} puts it back"
        )
    return Promotion(
        promoted=difference.low > 0 and rollback_reason is None,
        reason=reason,
        pass_at_1=rate,
        champion_pass_at_1=champion_rate,
        difference=difference.mean,
        low=difference.low,
        high=difference.high,
        version=version,
        champion_version=champion_version,
    )


def _reason(rate: float, champion_rate: float, opponent: str, difference: Estimate, confidence: float) -> str:
    interval = f"{100 * confidence:g} % interval {difference.low:.3f} … {difference.high:.3f}"
    versus = f"{opponent} {champion_rate:.3f}"
    if difference.low > 0:
        return f"promoted: {rate:.3f} beats {versus} by {difference.mean:.3f} ({interval})"
    if difference.mean > 0:
        return f"not promoted: {rate:.3f} against {versus}, a lead that may be chance ({interval} of the difference)"
    return f"not promoted: {rate:.3f} is not above {versus} ({interval} of the difference)"
