"""Strategies of selection: from the influence of a round's samples with a signal to which of them the update sees.

    influence.selection    kept
    positive               influence above 0; with control (conformal_control.py) all but what is clearly below 0
    top                    the share with the highest influence
    bottom                 the share with the lowest, which shows whether the sign of influence is right
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
    share: float  # `influence.share`


Strategy = Callable[[Measured], list[bool]]
"""Measured samples → which are kept, [n]."""


def positive(measured: Measured) -> list[bool]:
    """Those whose influence is above the threshold."""
    pairs = zip(measured.influences, measured.has_signal, strict=True)
    return [has_signal and x > measured.threshold for x, has_signal in pairs]


def top(measured: Measured) -> list[bool]:
    """The share with the highest influence."""
    return _first(measured, [-x for x in measured.influences])


def bottom(measured: Measured) -> list[bool]:
    """The share with the lowest influence."""
    return _first(measured, measured.influences)


def random(measured: Measured) -> list[bool]:
    """A random share."""
    return _first(measured, [0.0] * len(measured.influences))


STRATEGIES: dict[Selection, Strategy] = {"positive": positive, "top": top, "bottom": bottom, "random": random}


def _first(measured: Measured, order: Sequence[float]) -> list[bool]:
    places = [place for place, has_signal in enumerate(measured.has_signal) if has_signal]
    places.sort(key=lambda place: (order[place], measured.seeds[place]))
    kept = set(places[: round(measured.share * len(places))])
    return [place in kept for place in range(len(measured.influences))]
