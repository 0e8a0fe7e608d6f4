"""Which samples the update may see."""

from collections.abc import Sequence
from math import fsum
from typing import Literal


def select(
    rule: Literal["positive", "none"], advantages: Sequence[float], influences: Sequence[float | None], judged: bool
) -> list[bool]:
    """Whether each sample is kept; advantages [n], influences [n] → [n]. An influence of None was not measured.

    `positive` keeps influence > 0: a small gradient step on such a sample lowers the validation loss.
    `none` keeps every sample with a signal. So does `positive` where `judged` is False, that is, where no validation
    sample has a signal: nothing was measured then, and dropping everything would stop the learning.
    A sample with advantage 0 has no gradient and is never kept.
    """
    if rule == "none" or not judged:
        return [advantage != 0 for advantage in advantages]
    pairs = zip(advantages, influences, strict=True)
    return [advantage != 0 and influence is not None and influence > 0 for advantage, influence in pairs]


def selection_numbers(
    advantages: Sequence[float], influences: Sequence[float | None], kept: Sequence[bool]
) -> dict[str, float]:
    """What a selection did, in numbers; shares are of the samples with a signal. All [n].

    The mean influence is not there where none was measured.
    """
    rows = [row for row in zip(advantages, influences, kept, strict=True) if row[0] != 0]
    good = [keep for advantage, _, keep in rows if advantage > 0]
    bad = [keep for advantage, _, keep in rows if advantage < 0]
    measured = [influence for _, influence, _ in rows if influence is not None]
    numbers: dict[str, float] = {
        "samples": len(advantages),
        "no_signal_share": _share(len(advantages) - len(rows), len(advantages)),
        "selected": sum(kept),
        "selected_share": _share(sum(kept), len(rows)),
        "selected_share_good": _share(sum(good), len(good)),
        "selected_share_bad": _share(sum(bad), len(bad)),
    }
    if len(measured) == len(rows):
        numbers["mean_influence"] = fsum(measured) / max(len(rows), 1)
    return numbers


def _share(part: int, whole: int) -> float:
    return part / max(whole, 1)
