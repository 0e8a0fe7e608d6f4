"""Is there more to drop than a selection drops where all rewards are right?

Any judge errs, and so drops some samples that are right: those unlike all that it knows. How many, validation tells:
its rewards are trusted, so what is dropped of its own samples, each judged by all problems but its own, is dropped by
mistake. Training samples that fare no worse show no fault in their rewards, and dropping from them would only cost what
they teach.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.influence.influence import Measure, influences
from tasks.influence.losses import Validation
from tasks.params import Selection
from tasks.policy.averaging import Averaging
from tasks.policy.samples import Sample
from tasks.policy.scorer import Scorer

CONTROLLED: tuple[Selection, ...] = ("positive", "reweight", "drop_worst_negative")
"""The rules that may drop much or little; the others drop a share that is given."""

CHANCE = 0.01
"""Where as many would be dropped with at least this probability although nothing is wrong, nothing is."""


@dataclass(frozen=True)
class Dropped:
    """Of so many samples with a signal so many are dropped."""

    count: int
    of: int

    @property
    def share(self) -> float:
        return self.count / max(self.of, 1)


def dropped(advantages: Sequence[float], weights: Sequence[float]) -> Dropped:
    """By a selection with these weights; advantages [n], weights [n], 0 = dropped."""
    kept = [weight > 0 for a, weight in zip(advantages, weights, strict=True) if a]
    return Dropped(len(kept) - sum(kept), len(kept))


def chance_of_more(training: Dropped, trusted: Dropped) -> float:
    """Probability that at least as many of the training samples are dropped where both have one and the same risk.

    Fisher's exact test, one-sided. Samples of one problem are not independent, so that it is a guide, no guarantee.
    """
    from scipy.stats import fisher_exact

    rows = [[group.count, group.of - group.count] for group in (training, trusted)]
    return float(fisher_exact(rows, alternative="greater").pvalue)


def trusted_influences(
    scorer: Scorer,
    samples: Sequence[Sample],
    averaging: Averaging,
    validation: Validation,
    measure: Measure,
    shares: Sequence[float],
) -> list[float | None]:
    """Influence of the validation samples as if they were learned from, each by the votes of all problems but its own.

    `samples` [n] are those of `validation`, with the advantages that the update would give them; `averaging`,
    `measure` and `shares` [n] as `influences` has them for training samples.
    """
    judged = replace(measure, exclude_self=False, leave_group_out=True)
    own = replace(validation, same_batch=True)
    return [one.influence for one in influences(scorer, samples, averaging, own, judged, shares).each]
