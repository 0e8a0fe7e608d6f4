"""Logistic regression: the optimum, shares as targets, and scales."""

import numpy as np
import torch

from tasks.statistics.logistic_regression import PENALTY, fit_logistic_regression

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(200, 3)) * [1, 10, 0] + [0, 5, 2]
TARGETS = RNG.uniform(size=200).round(1)


def test_the_penalised_likelihood_has_no_slope_at_the_fit() -> None:
    model = fit_logistic_regression(FEATURES, TARGETS)
    weights = torch.tensor(model.weights, requires_grad=True)
    scaled = torch.tensor((FEATURES - model.means) / model.deviations)
    logits = weights[0] + scaled @ weights[1:]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor(TARGETS))
    (loss + PENALTY / 2 * weights[1:].square().sum()).backward()
    assert weights.grad is not None
    assert weights.grad.abs().max() < 1e-7
    assert torch.allclose(logits.sigmoid(), torch.tensor(model.predict(FEATURES)))


def test_a_share_weighs_as_that_many_rows() -> None:
    rows = np.repeat(FEATURES, 10, axis=0)
    ones = (np.arange(10)[None, :] < (10 * TARGETS).round()[:, None]).astype(float).ravel()
    assert np.allclose(fit_logistic_regression(rows, ones).weights, fit_logistic_regression(FEATURES, TARGETS).weights)


def test_units_of_features_do_not_matter() -> None:
    changed = FEATURES * [3, 0.1, 7] + [1, 2, 3]
    expected = fit_logistic_regression(FEATURES, TARGETS).predict(FEATURES)
    assert np.allclose(fit_logistic_regression(changed, TARGETS).predict(changed), expected)


def test_separable_targets_have_a_finite_fit() -> None:
    model = fit_logistic_regression(FEATURES, (FEATURES[:, 0] > 0).astype(float))
    assert np.isfinite(model.weights).all()
    assert ((model.predict(FEATURES) > 0.5) == (FEATURES[:, 0] > 0)).mean() > 0.95
