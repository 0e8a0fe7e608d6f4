"""Conformal control: drop only the training samples whose influence is too low for a sample with a right reward.

Validation also gives negative influence to some samples that are right: those unlike every validation sample. The
validation samples themselves show how often. Their rewards are trusted, so their influence, each measured without its
own problem, calibrates that of right training samples. For a training sample with influence x

    p = (1 + calibration samples with influence ≤ x) / (1 + calibration samples)

is the probability of an influence as low although its reward is right (a conformal p-value: Bates et al. 2023, Testing
for Outliers with Conformal p-values, §2). The rule of Benjamini and Hochberg then gives the influence below which at
most a share FALSE_DISCOVERY_RATE of the samples is expected to be right. This is the threshold, if it is not above 0:
a sample that lowers validation's loss is kept, however unlike the validation samples it is. Where all rewards are right
there is no threshold.
"""

from collections.abc import Sequence
from dataclasses import replace

from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Selection
from tasks.select.gradient_passes import GradientPasses
from tasks.select.losses import TokenLosses, Validation
from tasks.select.tracin import Measure, SampleInfluence, influences

CONTROLLED_RULES: tuple[Selection, ...] = ("positive", "drop_worst_negative")
"""The rules without a fixed share of samples to drop."""

FALSE_DISCOVERY_RATE = 1 / 3
"""Share of the dropped samples that may be right: losing them costs less than learning from wrong ones."""


def p_values(training: Sequence[float], calibration: Sequence[float]) -> list[float]:
    """p of each training sample's influence, from those of the calibration samples."""
    import numpy as np

    lower = np.searchsorted(np.sort(calibration), training, side="right")
    return [float(p) for p in (1 + lower) / (1 + len(calibration))]


def rejection_threshold(training: Sequence[float], calibration: Sequence[float]) -> float | None:
    """The highest influence of a training sample that control rejects; None where it rejects none."""
    from scipy.stats import false_discovery_control

    if not training or not calibration:
        return None
    found = false_discovery_control(p_values(training, calibration)) <= FALSE_DISCOVERY_RATE
    return max((x for x, fault in zip(training, found, strict=True) if fault), default=None)


def shift_by_threshold(
    samples: Sequence[Sample],
    scored: Sequence[SampleInfluence],
    calibration_samples: Sequence[Sample],
    calibration: Sequence[SampleInfluence],
    measure: Measure,
) -> list[float] | None:
    """Influence [n] minus the threshold: above 0 where it is not rejected; None where all rewards seem right.

    Samples without a signal do not count. For `dot`, influences are divided by the gradients' norms before they are
    compared, since these depend on the number of samples.
    """
    lengths = _lengths(scored, measure)
    own = [(s.influence or 0.0) / length for s, length in zip(scored, lengths, strict=True)]
    threshold = rejection_threshold(
        comparable_influences(samples, scored, measure),
        comparable_influences(calibration_samples, calibration, measure),
    )
    if threshold is None or all(x > 0 for s, x in zip(samples, own, strict=True) if s.has_signal):
        return None
    return [(x - min(threshold, 0.0)) * length for x, length in zip(own, lengths, strict=True)]


def comparable_influences(
    samples: Sequence[Sample], scored: Sequence[SampleInfluence], measure: Measure
) -> list[float]:
    """Influence of each sample with a signal, for `dot` divided by its gradient's norm."""
    rows = zip(samples, scored, _lengths(scored, measure), strict=True)
    return [(one.influence or 0.0) / length for sample, one, length in rows if sample.has_signal]


def _lengths(scored: Sequence[SampleInfluence], measure: Measure) -> list[float]:
    """The norms that influences are divided by."""
    return [s.gradient_norm or 1.0 for s in scored] if measure.similarity == "dot" else [1.0] * len(scored)


def calibration_influences(
    scorer: Scorer,
    averaging: TokenWeights,
    validation: Validation,
    measure: Measure,
    mean_weights: Sequence[float],
    step_samples: Sequence[Sample],
    cached: GradientPasses | None = None,
    token_losses: TokenLosses | None = None,
) -> list[SampleInfluence]:
    """Influence of the validation samples as if they were learned from, without the samples of their own problem.

    The other arguments are those of `influences` for the training samples, which are `step_samples`.
    """
    options = replace(measure, leave_group_out=True)
    own = replace(validation, same_batch=True)
    return influences(
        scorer, validation.samples, averaging, own, options, mean_weights, token_losses, cached, step_samples
    ).each
