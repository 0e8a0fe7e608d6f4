"""Strategies of selection: from the influence of a round's samples with a signal to which of them the update sees.

    influence.selection    kept
    positive               influence above 0; with control (influence.py) all but what is clearly below 0
    top                    the share with the highest influence
    bottom                 the share with the lowest, which shows whether the sign of influence is right
    random                 a random share: the baseline of a selection of that size
    module:function        what a user's function of `ScoredSamples` says

A sample without a signal is never kept.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.errors import GraftError
from tasks.model.sample import Sample
from tasks.params.fields import SelectionRule
from tasks.sources.user_code import call, load


class ScoredSamples(NamedTuple):
    """The samples of a round with their influences; the lists are parallel, [n]."""

    samples: Sequence[Sample]
    influences: Sequence[float]
    has_signal: Sequence[bool]
    seeds: Sequence[int]  # of each sample, which decide between equal influences
    threshold: float  # the highest influence that `positive` rejects
    share: float  # `influence.share`


Strategy = Callable[[ScoredSamples], list[bool]]
"""Scored samples → which are kept, [n]."""


def positive(scored: ScoredSamples) -> list[bool]:
    """The samples whose influence is above the threshold."""
    pairs = zip(scored.influences, scored.has_signal, strict=True)
    return [has_signal and x > scored.threshold for x, has_signal in pairs]


def top(scored: ScoredSamples) -> list[bool]:
    """The share with the highest influence."""
    return _first(scored, [-x for x in scored.influences])


def bottom(scored: ScoredSamples) -> list[bool]:
    """The share with the lowest influence."""
    return _first(scored, scored.influences)


def random(scored: ScoredSamples) -> list[bool]:
    """A random share."""
    return _first(scored, [0.0] * len(scored.influences))


STRATEGIES: dict[str, Strategy] = {"positive": positive, "top": top, "bottom": bottom, "random": random}
"""Value of `influence.selection` → strategy; audit and none have none."""


def keep(name: SelectionRule, scored: ScoredSamples) -> list[bool]:
    """Which of the samples the strategy keeps, [n]; never one without a signal.

    Raises GraftError where a user's function returns anything but a bool for each.
    """
    if name in STRATEGIES:
        return STRATEGIES[name](scored)
    kept = call("influence.selection", name, load("influence.selection", name), scored)
    if not (isinstance(kept, list) and len(kept) == len(scored.influences) and {*map(type, kept)} <= {bool}):
        raise GraftError(
            f"influence.selection: {name} returned {kept!r:.80}; return a list of a bool for each of the "
            f"{len(scored.influences)} samples"
        )
    return [is_kept and has_signal for is_kept, has_signal in zip(kept, scored.has_signal, strict=True)]


def _first(scored: ScoredSamples, order: Sequence[float]) -> list[bool]:
    places = [place for place, has_signal in enumerate(scored.has_signal) if has_signal]
    places.sort(key=lambda place: (order[place], scored.seeds[place]))
    kept = set(places[: round(scored.share * len(places))])
    return [place in kept for place in range(len(scored.influences))]
