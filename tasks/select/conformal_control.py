"""Control of false discoveries: which training samples' values are too low for a sample with a right reward.

The values of validation samples, whose rewards are trusted, calibrate those of right training samples. For a training
sample with value x

    p = (1 + calibration values ≤ x) / (1 + calibration values)

is the probability of a value as low although its reward is right (a conformal p-value: Bates et al. 2023, Testing for
Outliers with Conformal p-values, §2). The rule of Benjamini and Hochberg then gives the threshold below which at most a
share FALSE_DISCOVERY_RATE of the samples is expected to be right.
"""

from collections.abc import Sequence

FALSE_DISCOVERY_RATE = 1 / 3
"""Share of the dropped samples that may be right: losing them costs less than learning from wrong ones."""


def rejection_threshold(training: Sequence[float], calibration: Sequence[float]) -> float | None:
    """The highest training value that is rejected; None where none is."""
    import numpy as np
    from scipy.stats import false_discovery_control

    if not training or not calibration:
        return None
    lower = np.searchsorted(np.sort(calibration), training, side="right")
    rejected = false_discovery_control((1 + lower) / (1 + len(calibration))) <= FALSE_DISCOVERY_RATE
    return max((x for x, fault in zip(training, rejected, strict=True) if fault), default=None)
