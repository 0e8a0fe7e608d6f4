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
from tasks.select.gradient_passes import GradientPasses
from tasks.select.losses import Validation
from tasks.select.tracin import Measure, SampleInfluence, influences

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
    rejected = false_discovery_control(p_values(training, calibration)) <= FALSE_DISCOVERY_RATE
    return max((x for x, fault in zip(training, rejected, strict=True) if fault), default=None)


def shift_by_threshold(
    samples: Sequence[Sample],
    scored: Sequence[SampleInfluence],
    calibration_samples: Sequence[Sample],
    calibration: Sequence[SampleInfluence],
) -> list[float] | None:
    """Influence [n] minus the threshold: above 0 where it is not rejected; None where all rewards seem right.

    Samples without a signal do not count.
    """
    training = influences_with_signal(samples, scored)
    threshold = rejection_threshold(training, influences_with_signal(calibration_samples, calibration))
    if threshold is None or all(x > 0 for x in training):
        return None
    return [(one.influence or 0.0) - min(threshold, 0.0) for one in scored]


def influences_with_signal(samples: Sequence[Sample], scored: Sequence[SampleInfluence]) -> list[float]:
    """Influence of each sample with a signal."""
    return [one.influence or 0.0 for sample, one in zip(samples, scored, strict=True) if sample.has_signal]


def calibration_influences(
    scorer: Scorer,
    averaging: TokenWeights,
    validation: Validation,
    measure: Measure,
    mean_weights: Sequence[float],
    step_samples: Sequence[Sample],
    cached: GradientPasses | None = None,
) -> list[SampleInfluence]:
    """Influence of the validation samples as if they were learned from, without the samples of their own problem.

    The other arguments are those of `influences` for the training samples, which are `step_samples`; `measure` is by
    similarity `local`.
    """
    options = replace(measure, leave_group_out=True)
    return influences(
        scorer,
        validation.samples,
        averaging,
        validation,
        options,
        mean_weights,
        cached=cached,
        step_samples=step_samples,
    ).each
