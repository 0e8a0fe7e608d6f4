"""Which training samples fare worse than samples whose rewards are right?

Any judge errs: it speaks against some samples that are right, those unlike all that it knows. Which influence such
samples have, validation tells. Its rewards are trusted, so its own samples, each judged by all problems but its own,
are drawn as right training samples are. Of a training sample with influence x

    p = (1 + trusted samples with influence ≤ x) / (1 + trusted samples)

is the probability of an influence as low although its reward is right (a conformal p-value: Bates et al. 2023, Testing
for Outliers with Conformal p-values, §2). Benjamini and Hochberg's rule then says below which influence at most a share
MISTAKEN of the samples is expected to be right. This is the fault line, if it is not above 0: what lowers validation's
loss is not dropped, however unlike validation's own samples it is. Where rewards are right there is none.
"""

from collections.abc import Sequence
from dataclasses import replace

from tasks.influence.gradient_passes import GradientPasses
from tasks.influence.loss_gradients import Validation
from tasks.influence.tracin import Measure, SampleInfluence, influences
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Selection

CONTROLLED_RULES: tuple[Selection, ...] = ("positive", "reweight", "drop_worst_negative")
"""The rules that may drop much or little; the others drop a share that is given."""

FALSE_DISCOVERY_RATE = 1 / 3
"""Share of what is at or below the fault line that may be right: losing that costs less than learning what is wrong."""


def rejection_threshold(training: Sequence[float], trusted: Sequence[float]) -> float | None:
    """The highest of the training samples' influences that is too low for chance; None where none is."""
    import numpy as np
    from scipy.stats import false_discovery_control

    if not training or not trusted:
        return None
    lower = np.searchsorted(np.sort(trusted), training, side="right")
    found = false_discovery_control((1 + lower) / (1 + len(trusted))) <= FALSE_DISCOVERY_RATE
    return max((x for x, fault in zip(training, found, strict=True) if fault), default=None)


def shift_by_threshold(
    samples: Sequence[Sample],
    scored: Sequence[SampleInfluence],
    trusted_samples: Sequence[Sample],
    trusted: Sequence[SampleInfluence],
    measure: Measure,
) -> list[float] | None:
    """Influence [n] counted from the fault line: above 0 where no fault is found; None where all rewards seem right.

    Samples without a signal have no say in it. By `dot`, influences are compared at equal lengths of the samples'
    gradients, which hang on how many there are.
    """
    lengths = _lengths(scored, measure)
    own, theirs = _per_length(scored, lengths), _per_length(trusted, _lengths(trusted, measure))
    line = rejection_threshold(
        [x for s, x in zip(samples, own, strict=True) if s.advantage],
        [x for s, x in zip(trusted_samples, theirs, strict=True) if s.advantage],
    )
    if line is None or all(x > 0 for s, x in zip(samples, own, strict=True) if s.advantage):
        return None
    return [(x - min(line, 0.0)) * length for x, length in zip(own, lengths, strict=True)]


def _lengths(scored: Sequence[SampleInfluence], measure: Measure) -> list[float]:
    """What influence is in proportion to, other than to the direction of the gradient."""
    return [s.gradient_norm or 1.0 for s in scored] if measure.similarity == "dot" else [1.0] * len(scored)


def _per_length(scored: Sequence[SampleInfluence], lengths: Sequence[float]) -> list[float]:
    return [(s.influence or 0.0) / length for s, length in zip(scored, lengths, strict=True)]


def calibration_influences(
    scorer: Scorer,
    averaging: TokenWeights,
    validation: Validation,
    measure: Measure,
    shares: Sequence[float],
    stepped: Sequence[Sample],
    judges: GradientPasses | None = None,
) -> list[SampleInfluence]:
    """Influence of the validation samples as if they were learned from, each by the votes of all problems but its own.

    The other arguments are those of `influences` for the training samples, which are `stepped`.
    """
    judged = replace(measure, exclude_self=False, leave_group_out=True)
    own = replace(validation, same_batch=True)
    return influences(scorer, validation.samples, averaging, own, judged, shares, judges=judges, stepped=stepped).each
