"""Strategies of selection: from the influence of a round's samples with a signal to which of them the update sees.

    influence.selection    kept
    positive               influence above 0; with control (conformal_control.py) all but what is clearly below 0
    top                    the share with the highest influence
    bottom                 the share with the lowest, which shows whether the sign of influence is right
    random                 a random share: the baseline of a selection of that size
    module:function        what a user's function of `Measured` says

A sample without a signal is never kept.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.errors import GraftError
from tasks.model.sample import Sample
from tasks.params.fields import Selection
from tasks.sources.user_code import call, load


class Measured(NamedTuple):
    """The samples of a round; the lists are parallel, [n]."""

    samples: Sequence[Sample]
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


STRATEGIES: dict[str, Strategy] = {"positive": positive, "top": top, "bottom": bottom, "random": random}
"""Value of `influence.selection` → strategy; audit and none have none."""


def keep(name: Selection, measured: Measured) -> list[bool]:
    """Which of the samples the strategy keeps, [n]; never one without a signal.

    Raises GraftError where a user's function returns anything but a bool for each.
    """
    if name in STRATEGIES:
        return STRATEGIES[name](measured)
    kept = call("influence.selection", name, load("influence.selection", name), measured)
    if not (isinstance(kept, list) and len(kept) == len(measured.influences) and {*map(type, kept)} <= {bool}):
        raise GraftError(
            f"influence.selection: {name} returned {kept!r:.80}; return a list of a bool for each of the "
            f"{len(measured.influences)} samples"
        )
    return [one and has_signal for one, has_signal in zip(kept, measured.has_signal, strict=True)]


def _first(measured: Measured, order: Sequence[float]) -> list[bool]:
    places = [place for place, has_signal in enumerate(measured.has_signal) if has_signal]
    places.sort(key=lambda place: (order[place], measured.seeds[place]))
    kept = set(places[: round(measured.share * len(places))])
    return [place in kept for place in range(len(measured.influences))]
