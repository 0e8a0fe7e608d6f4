"""Metrics of a selection.

selected, selected_share    samples that the update may see; shares are of the samples with a signal
selected_share_…            of those with advantage above 0 (good) and below (bad); with the highest reward of the
                            round (full), with 0 (none) and between (some); of those that each proposer wrote
measured                    samples that have a gradient and whose influence was measured; next to an audit that finds
                            nothing only a few
influence_mean, _std, _min, _max, _p10 …    of these
influence_positive_share    share of these whose influence is above 0
gradient_norm_mean          of their parts of the loss
train_gradient_norm         of the sum of these parts, the gradient of the batch
validation_gradient_norm    of the validation loss
validation_loss             its value, which has no meaning by itself
gradient_cosine             of the angle between these two, of the measured samples: where it is below 0 a step on all
                            of them raises the validation loss; of few samples it is noise

They are of training samples; `mixed` counts the validation samples that the update learns from as well.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from tasks.objective.advantages import TOLERANCE, known_rewards
from tasks.records.search import Proposer
from tasks.records.selection import Selected

QUANTILES = (10, 50, 90)


def selection_metrics(
    lines: Sequence[Selected], rewards: Sequence[float | None], proposers: Sequence[Proposer]
) -> dict[str, float]:
    """Numbers of the samples' lines, with the reward and the proposer of each, all [n]."""
    rows = [row for row in zip(lines, rewards, proposers, strict=True) if row[0].advantage != 0]
    selected = sum(line.selected for line in lines)
    top = max(known_rewards(rewards), default=0.0)
    numbers: dict[str, float] = {
        "samples": len(lines),
        "no_signal_share": _share(len(lines) - len(rows), len(lines)),
        "selected": selected,
        "selected_share": _share(selected, len(rows)),
        "selected_share_good": _kept(line for line, _, _ in rows if line.advantage > 0),
        "selected_share_bad": _kept(line for line, _, _ in rows if line.advantage < 0),
        "selected_share_full": _kept(line for line, reward, _ in rows if _is(reward, top)),
        "selected_share_none": _kept(line for line, reward, _ in rows if _is(reward, 0.0)),
        "selected_share_some": _kept(line for line, reward, _ in rows if not _is(reward, top) and not _is(reward, 0.0)),
    }
    for proposer in dict.fromkeys(proposers):
        numbers[f"selected_share_{proposer}"] = _kept(line for line, _, by in rows if by == proposer)
    return numbers | _influence_metrics([line for line, _, _ in rows])


def _influence_metrics(lines: Sequence[Selected]) -> dict[str, float]:
    """Numbers of the influences of samples with a signal; {} where none was to be measured."""
    import numpy as np

    # a sample whose advantage update.negative_weight makes 0 has no gradient, and influence 0 whatever it is
    measured = [
        (line.influence, line.gradient_norm) for line in lines if line.influence is not None and line.gradient_norm
    ]
    if not measured:
        return {"measured": 0} if any(line.influence is not None for line in lines) else {}
    influences, norms = zip(*measured, strict=True)
    quantiles = np.percentile(influences, QUANTILES)
    return {
        "measured": len(measured),
        "influence_mean": fmean(influences),
        "influence_std": stdev(influences) if len(influences) > 1 else 0.0,
        "influence_min": min(influences),
        "influence_max": max(influences),
        "influence_positive_share": _share(sum(influence > 0 for influence in influences), len(influences)),
        "gradient_norm_mean": fmean(norms),
        **{f"influence_p{q}": float(value) for q, value in zip(QUANTILES, quantiles, strict=True)},
    }


def _is(reward: float | None, value: float) -> bool:
    return reward is not None and abs(reward - value) <= TOLERANCE


def _kept(lines: Iterable[Selected]) -> float:
    kept = [line.selected for line in lines]
    return _share(sum(kept), len(kept))


def _share(part: int, whole: int) -> float:
    return part / max(whole, 1)
