"""Influence predicts what a gradient step does to the validation loss."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.model.policy import Policy, load_policy
from tasks.model.sample import Sample
from tasks.select.losses import loss_denominator
from tasks.select.tracin import Estimator, influences, validation_gradient
from tests.support.influence import (
    BY_TOKEN,
    adapter,
    flat,
    gradient_of,
    loss_of,
    measured,
    score_rows,
    scorer_of,
    stepped,
)
from tests.support.policies import MakeSamples
from tests.support.validation import advantage_validation


def batch_loss(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    return loss_of(policy, samples, loss_denominator(samples, BY_TOKEN))


def with_weights(samples: list[Sample], weights: Sequence[float]) -> list[Sample]:
    return [replace(s, advantage=weight) for s, weight in zip(samples, weights, strict=True)]


def test_a_step_on_a_selected_sample_lowers_the_validation_loss_and_on_a_rejected_one_raises_it(
    exact: Policy, make_samples: MakeSamples
) -> None:
    """float64, step 1e-4: change / (-step · influence) within 1 %, sign right for every sample."""
    training, validation = make_samples(problems=8, seed=1), make_samples(problems=16, seed=2)
    scored = measured(scorer_of(exact), training, validation).samples
    kept = [(s.influence or 0) > 0 for s in scored]
    assert 4 <= sum(kept) <= len(kept) - 4
    before, changes = batch_loss(exact, validation).item(), []
    for sample in training:
        own = gradient_of(exact, loss_of(exact, [sample], loss_denominator(training, BY_TOKEN)))
        with stepped(exact, own, 1e-4):
            changes.append(batch_loss(exact, validation).item() - before)
    assert [change < 0 for change in changes] == kept
    predicted = torch.tensor([1e-4 * s.influence for s in scored], dtype=torch.float64)
    slope = float((torch.tensor(changes, dtype=torch.float64) @ predicted) / (predicted @ predicted))
    assert -1.01 <= slope <= -0.99


@pytest.mark.parametrize(("limit", "budget"), [(1, 2**30), (40, 500_000), (10_000, 1)])
def test_micro_batches_order_and_memory_never_change_influence(
    limit: int, budget: int, policy: Policy, samples: list[Sample], make_samples: MakeSamples
) -> None:
    validation = make_samples(seed=9)
    expected = dict(zip(samples, measured(scorer_of(policy), samples, validation).samples, strict=True))
    size = float(flat(validation_gradient(scorer_of(policy), advantage_validation(validation)).values()).norm())
    random.Random(0).shuffle(samples)
    found = measured(scorer_of(policy, tokens=limit), samples, validation, budget=budget).samples
    for sample, scored in zip(samples, found, strict=True):
        assert scored.gradient_norm == pytest.approx(expected[sample].gradient_norm, rel=1e-4)
        assert scored.influence == pytest.approx(expected[sample].influence, abs=1e-5 * scored.gradient_norm * size)


@pytest.mark.parametrize(
    ("similarity", "budget", "leave_out"),
    [
        ("dot", 100_000, None), ("local", 1, None), ("local", 2**30, None),
        ("dot", 100_000, "own"), ("local", 2**30, "own"), ("dot", 100_000, "group"), ("local", 2**30, "group"),
    ],
)  # fmt: skip
def test_every_measure_is_its_formula(
    similarity: Any, budget: int, leave_out: Any, exact: Policy, make_samples: MakeSamples
) -> None:
    """Against gradients of one sample at a time, float64. Without own votes the batch is its own validation."""
    samples = make_samples(problems=5, seed=3)
    samples = [*samples, replace(samples[-1], member=99)]  # with an equal row
    others = make_samples(problems=4, seed=4)
    others = with_weights(others, [(-1) ** place * (place % 4) for place in range(len(others))])
    samples = with_weights(samples, [0.0 if place % 5 == 2 else s.advantage for place, s in enumerate(samples)])
    shares = [float(place % 3) for place in range(len(samples))]
    if leave_out:
        others = samples
    validation = advantage_validation(others)
    measure = Estimator(similarity, leave_out, budget)
    whole = influences(scorer_of(exact), samples, BY_TOKEN, validation, measure, shares)
    for gradient, batch in ((whole.train_gradient, samples), (whole.gradient, others)):
        loss_gradient = gradient_of(exact, batch_loss(exact, batch))
        assert (flat(gradient.values()) - loss_gradient).norm() <= 1e-9 * loss_gradient.norm()
    found = whole.samples

    ours, theirs = score_rows(exact, samples), score_rows(exact, others)
    a = torch.tensor([-s.advantage for s in samples], dtype=torch.float64) / loss_denominator(samples, BY_TOKEN)
    c = torch.tensor([-s.advantage for s in others], dtype=torch.float64) / loss_denominator(others, BY_TOKEN)
    products = a * (ours @ (c @ theirs))
    left_out = torch.tensor(
        [
            [
                (leave_out == "group" and s.problem_id == other.problem_id)
                or (leave_out == "own" and (s.problem_id, s.completion) == (other.problem_id, other.completion))
                for other in others
            ]
            for s in samples
        ]
    )  # fmt: skip
    votes = (ours @ theirs.T) * c * ~left_out  # [n, validation samples]
    expected = a * votes.sum(1)
    size = float((a[:, None] * votes).abs().sum(1).max())
    if similarity == "local":
        ours, theirs = ours / ours.norm(dim=1)[:, None], theirs / theirs.norm(dim=1)[:, None]
        votes = (ours @ theirs.T).clamp(min=0) ** 3 * c * ~left_out
        counted, weights = votes.sum(1), torch.tensor(shares, dtype=torch.float64)
        names = [s.problem_id for s in samples]
        groups = torch.tensor([[float(a == b) for b in names] for a in names], dtype=torch.float64)
        of_group = (groups @ (weights * counted)) / (groups @ weights)
        expected = a.sign() * (counted - (of_group + (counted @ weights) / weights.sum()) / 2)
        size = float(votes.abs().sum(1).max())
    for place, one in enumerate(found):
        assert one.influence == pytest.approx(float(expected[place]), rel=1e-7, abs=1e-9 * size)
        assert one.product == pytest.approx(float(products[place]), rel=1e-7, abs=1e-12)


def test_a_gradient_of_zero_is_similar_to_none(policy: Policy, make_samples: MakeSamples) -> None:
    """Without a signal in validation; and B = 0 and A = 0: every gradient is 0, and 0 / 0 no number."""
    mute = [replace(s, advantage=0.0) for s in make_samples(seed=1)]
    assert all(s.influence == 0 for s in measured(scorer_of(policy), make_samples(), mute, similarity="local").samples)
    with torch.no_grad():
        for weight in adapter(policy):
            weight.zero_()
    found = measured(scorer_of(policy), make_samples(problems=2), make_samples(seed=1), similarity="local").samples
    assert all(s.influence == 0 for s in found)


def test_dropout_is_off_while_influence_is_measured(
    tmp_path: Path, save_tiny: Callable[..., None], samples: list[Sample], others: list[Sample]
) -> None:
    save_tiny(tmp_path / "policy")
    expected = measured(scorer_of(load_policy(tmp_path / "policy")), samples, others).samples
    config = tmp_path / "policy" / "adapter" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_dropout": 0.05}))
    policy = load_policy(tmp_path / "policy")
    assert any(isinstance(module, torch.nn.Dropout) and module.p == 0.05 for module in policy.model.modules())
    for _ in range(2):
        assert measured(scorer_of(policy), samples, others).samples == expected
