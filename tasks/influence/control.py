"""Is there more to drop than a selection drops where all rewards are right?

Any judge errs, and so drops some samples that are right: those unlike all that it knows. How many, validation tells:
its rewards are trusted, so what is dropped of its own samples, each judged by all problems but its own, is dropped by
mistake. Training samples that fare no worse show no fault in their rewards, and dropping from them would only cost what
they teach.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from tasks.influence.influence import Measure, influences
from tasks.influence.losses import Validation
from tasks.influence.passes import Passes
from tasks.params import Selection
from tasks.policy.averaging import Averaging
from tasks.policy.samples import Sample
from tasks.policy.scorer import Scorer

CONTROLLED: tuple[Selection, ...] = ("positive", "reweight", "drop_worst_negative")
"""The rules that may drop much or little; the others drop a share that is given."""

CHANCE = 0.01
"""Where as much would be dropped with at least this probability although nothing is wrong, nothing is."""


def dropped(samples: Sequence[Sample], weights: Sequence[float]) -> list[float]:
    """Of each problem's samples with a signal, the share that a selection with `weights` [n] drops: 0 = dropped."""
    found: dict[str, list[bool]] = {}
    for sample, weight in zip(samples, weights, strict=True):
        if sample.advantage:
            found.setdefault(sample.problem_id, []).append(weight == 0)
    return [fmean(lost) for lost in found.values()]


def chance_of_more(training: Sequence[float], trusted: Sequence[float]) -> float:
    """Probability of shares this much higher among the training problems, where both are drawn from one distribution.

    Mann and Whitney's test, one-sided, on what `dropped` says: problems are independent, samples of one are not. 1
    where there is nothing to compare.
    """
    from scipy.stats import mannwhitneyu

    if len({*training, *trusted}) < 2 or not training or not trusted:
        return 1.0
    return float(mannwhitneyu(training, trusted, alternative="greater").pvalue)


def trusted_influences(
    scorer: Scorer,
    samples: Sequence[Sample],
    averaging: Averaging,
    validation: Validation,
    measure: Measure,
    shares: Sequence[float],
    judges: Passes | None = None,
) -> list[float | None]:
    """Influence of the validation samples as if they were learned from, each by the votes of all problems but its own.

    `samples` [n] are those of `validation`, with the advantages that the update would give them; `averaging`,
    `measure`, `shares` [n] and `judges` as `influences` has them for training samples.
    """
    judged = replace(measure, exclude_self=False, leave_group_out=True)
    own = replace(validation, same_batch=True)
    return [one.influence for one in influences(scorer, samples, averaging, own, judged, shares, judges=judges).each]
