"""Logistic regression with an L2 penalty, by Newton's method."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Floats = NDArray[float64]

PENALTY = 0.01
"""Weight of ½ ‖coefficients‖² against the mean loss, for standardised features; the intercept has none."""

STEPS, LARGEST, TOLERANCE = 30, 5.0, 1e-6
"""Newton steps at most, the largest change of a coefficient in one, and that below which they end."""


class LogisticRegression(NamedTuple):
    """E[target] = σ(intercept + coefficients · (features − means) / deviations)."""

    means: "Floats"
    deviations: "Floats"
    weights: "Floats"  # [1 + F], the intercept first

    def predict(self, features: "Floats") -> "Floats":
        """The expected targets [n] of features [n, F]."""
        return _sigmoid(_design((features - self.means) / self.deviations) @ self.weights)


def fit_logistic_regression(features: "Floats", targets: "Floats", penalty: float = PENALTY) -> LogisticRegression:
    """The maximum of the penalised likelihood; features [n, F], targets [n] from 0 to 1, shares included.

    Iteratively reweighted least squares: McCullagh and Nelder 1989, Generalized Linear Models, §2.5.
    """
    import numpy as np

    means, deviations = features.mean(0), features.std(0)
    deviations = np.where(deviations > 0, deviations, 1.0)
    design = _design((features - means) / deviations)
    ridge = np.diag([0.0, *[penalty * len(targets)] * features.shape[1]])
    weights = np.zeros(design.shape[1])
    for _ in range(STEPS):
        expected = _sigmoid(design @ weights)
        gradient = design.T @ (expected - targets) + ridge @ weights
        curvature = expected * (1 - expected) + TOLERANCE
        step = np.linalg.solve((design.T * curvature) @ design + ridge, gradient)
        weights = weights - np.clip(step, -LARGEST, LARGEST)
        if np.abs(step).max() < TOLERANCE:
            break
    return LogisticRegression(means, deviations, weights)


def _design(features: "Floats") -> "Floats":
    import numpy as np

    return np.column_stack([np.ones(len(features)), features])


def _sigmoid(values: "Floats") -> "Floats":
    import numpy as np

    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))
