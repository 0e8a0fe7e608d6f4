"""Whether a policy takes the champion's place: a paired comparison over the same test problems."""

from collections.abc import Sequence

from tasks.params.sections import Evaluation
from tasks.records import Promotion
from tasks.statistics.intervals import Estimate, difference_interval


def decide_promotion(
    right: Sequence[bool],
    champion_right: Sequence[bool],
    version: str,
    champion_version: str | None,
    params: Evaluation,
    seed: int,
    taken_back: str | None = None,
) -> Promotion:
    """Promote when the whole interval of the mean difference lies above 0.

    `taken_back`: why somebody took this very policy back after an earlier promotion, which no figure overrules.

    `right` and `champion_right` say for each of the same M test problems whether the greedy completion solved it.
    Raises ValueError where their lengths differ.
    """
    ours, theirs = [float(x) for x in right], [float(x) for x in champion_right]
    difference = difference_interval(ours, theirs, params.resamples, params.confidence, seed)
    rate, champion_rate = sum(ours) / len(ours), sum(theirs) / len(theirs)
    opponent = "the champion's" if champion_version else "the first policy's"
    reason = _reason(rate, champion_rate, opponent, difference, params.confidence)
    if version == champion_version:
        reason = "not promoted: this policy is the champion already"
    if taken_back is not None:
        reason = f"not promoted: was champion and was taken back ({taken_back}); graft rollback {version} puts it back"
    return Promotion(
        promoted=difference.low > 0 and taken_back is None,
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
