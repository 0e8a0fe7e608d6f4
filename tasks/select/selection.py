"""Selection rules: which samples the update sees."""

import math
from collections.abc import Sequence

from tasks.params.fields import Selection


def select(
    rule: Selection,
    signals: Sequence[float],
    influences: Sequence[float | None],
    fraction: float = 1.0,
    lots: Sequence[int] = (),
) -> list[bool]:
    """Whether each sample is kept; signals [n], influences [n] → [n]. An influence of None: not measured.

    positive              influence > 0: a small gradient step on such a sample lowers the validation loss
    drop_worst_negative   all but that `fraction` of those with influence < 0 which is worst (IIF, Hu et al. 2025)
    top_fraction          the `fraction` of the samples with the highest influence
    bottom_fraction       … with the lowest: a control, it should do harm
    random                … with the lowest of `lots` [n]: a control
    none                  every sample

    A sample whose signal is 0, its advantage for instance, is never kept, nor counted in a fraction. Fractions are
    rounded up.
    """
    places = [place for place, signal in enumerate(signals) if signal != 0]
    value = {place: influences[place] or 0.0 for place in places}
    if rule == "random":
        order = sorted(places, key=lambda place: lots[place])
    else:
        order = sorted(places, key=lambda place: -value[place])  # of equal ones the first
    kept = set(_kept(rule, order, value, fraction))
    return [place in kept for place in range(len(signals))]


def _kept(rule: Selection, order: Sequence[int], value: dict[int, float], fraction: float) -> Sequence[int]:
    """`order`: the best first."""
    if rule == "none":
        return order
    if rule in ("top_fraction", "random"):
        return order[: math.ceil(fraction * len(order))]
    if rule == "bottom_fraction":
        return order[len(order) - math.ceil(fraction * len(order)) :]
    if rule == "drop_worst_negative":
        negative = sum(value[place] < 0 for place in order)
        return order[: len(order) - math.ceil(fraction * negative)]
    return [place for place in order if value[place] > 0]
