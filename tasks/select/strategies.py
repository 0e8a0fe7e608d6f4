"""Strategies of selection: from the influence of a round's samples with a signal to which of them the update sees.

    influence.selection    kept
    positive               influence above 0, or above what control (conformal_control.py) rejects
    top                    the share with the highest influence
    bottom                 the share with the lowest: the control of a sign
    random                 a random share: the baseline of a selection of that size

A sample without a signal is never kept.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.params.fields import Selection


class Measured(NamedTuple):
    """The samples of a round; the lists are parallel, [n]."""

    influences: Sequence[float]
    has_signal: Sequence[bool]
    seeds: Sequence[int]  # of each sample, which decide between equal influences
    threshold: float  # the highest influence that `positive` rejects


Strategy = Callable[[Measured, float], list[bool]]
"""Measured samples and `influence.share` → which are kept, [n]."""


def positive(measured: Measured, _share: float) -> list[bool]:
    """Those whose influence is above the threshold."""
    pairs = zip(measured.influences, measured.has_signal, strict=True)
    return [has_signal and x > measured.threshold for x, has_signal in pairs]


def top(measured: Measured, share: float) -> list[bool]:
    """The share with the highest influence."""
    return _first(measured, [-x for x in measured.influences], share)


def bottom(measured: Measured, share: float) -> list[bool]:
    """The share with the lowest influence."""
    return _first(measured, measured.influences, share)


def random(measured: Measured, share: float) -> list[bool]:
    """A random share."""
    return _first(measured, [0.0] * len(measured.influences), share)


STRATEGIES: dict[Selection, Strategy] = {"positive": positive, "top": top, "bottom": bottom, "random": random}


def _first(measured: Measured, order: Sequence[float], share: float) -> list[bool]:
    places = [place for place, has_signal in enumerate(measured.has_signal) if has_signal]
    places.sort(key=lambda place: (order[place], measured.seeds[place]))
    kept = set(places[: round(share * len(places))])
    return [place in kept for place in range(len(measured.influences))]
