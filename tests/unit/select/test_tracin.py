"""Influence predicts what a gradient step does to the validation loss."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.select.losses import loss_denominator
from tasks.select.selection import select
from tasks.select.tracin import Measure, influences
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
    without_own,
)
from tests.support.pairwise import case_name, pairwise_cases
from tests.support.policies import MakeSamples
from tests.support.updates import TRAINING_LAYOUTS
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
    scored = measured(scorer_of(exact), training, validation).each
    kept = select("positive", [s.advantage for s in training], [s.influence for s in scored])
    assert 4 <= sum(kept) <= len(kept) - 4
    before, changes = batch_loss(exact, validation).item(), []
    for sample in training:
        own = gradient_of(exact, loss_of(exact, [sample], loss_denominator(training, BY_TOKEN)))
        with stepped(exact, own, 1e-4):
            changes.append(batch_loss(exact, validation).item() - before)
    assert [float(change < 0) for change in changes] == kept
    predicted = torch.tensor([1e-4 * s.influence for s in scored], dtype=torch.float64)
    slope = float((torch.tensor(changes, dtype=torch.float64) @ predicted) / (predicted @ predicted))
    assert -1.01 <= slope <= -0.99


def test_the_gradient_of_a_loss_is_of_the_written_out_loss(exact: Policy, make_samples: MakeSamples) -> None:
    samples = make_samples(problems=6)
    silent = [replace(s, advantage=0.0) if s.problem_id == "p2" else s for s in samples]
    expected = gradient_of(exact, batch_loss(exact, silent))
    for layout in TRAINING_LAYOUTS:
        found = flat(advantage_validation(silent).gradient(scorer_of(exact, layout)).values())
        assert (found - expected).norm() <= 1e-9 * expected.norm()


@pytest.mark.parametrize("budget", [1, 2**30], ids=["streamed", "in memory"])
@pytest.mark.parametrize("similarity", ["dot", "cosine", "local"])
def test_the_gradient_of_the_batch_is_added_up_on_the_way(
    similarity: str, budget: int, exact: Policy, samples: list[Sample], others: list[Sample]
) -> None:
    samples = [*samples, replace(samples[0], member=99), replace(samples[1], member=98, advantage=0.0)]
    expected = flat(advantage_validation(samples).gradient(scorer_of(exact)).values())
    for validation in (others, None):
        found = measured(scorer_of(exact), samples, validation, similarity=similarity, budget=budget).train_gradient
        assert (flat(found.values()) - expected).norm() <= 1e-9 * expected.norm()


@pytest.mark.parametrize("budget", [1, 2**30], ids=["two passes", "one pass"])
def test_the_same_batch_as_validation_has_mean_influence_of_its_squared_gradient(
    budget: int, exact: Policy, samples: list[Sample]
) -> None:
    samples, scorer = [*samples, replace(samples[0], member=99)], scorer_of(exact)  # with an equal row
    direction = flat(advantage_validation(samples).gradient(scorer).values())
    scored = measured(scorer, samples, samples, budget=budget).each
    mean = sum(s.influence for s in scored) / len(scored)
    assert mean == pytest.approx(float(direction.square().sum()) / len(scored), rel=1e-9)
    assert mean > 0


@pytest.mark.parametrize("budget", [1, 2**30], ids=["two passes", "one pass"])
def test_in_the_same_batch_the_other_samples_alone_decide(
    budget: int, exact: Policy, make_samples: MakeSamples
) -> None:
    samples = make_samples(problems=3)
    scored, size = measured(scorer_of(exact), samples, None, budget=budget).each, len(samples)
    rows = [gradient_of(exact, loss_of(exact, [s], loss_denominator(samples, BY_TOKEN))) for s in samples]
    for place, own in enumerate(rows):
        expected = sum(float(own @ rows[other]) for other in range(size) if other != place)
        assert scored[place].influence == pytest.approx(expected, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize(
    ("limit", "budget"), [(1, 2**30), (40, 2**30), (10_000, 2**30), (10_000, 1), (10_000, 500_000)]
)
def test_micro_batches_order_and_memory_never_change_influence(
    limit: int, budget: int, policy: Policy, samples: list[Sample], make_samples: MakeSamples
) -> None:
    validation = make_samples(seed=9)
    expected = dict(zip(samples, measured(scorer_of(policy), samples, validation).each, strict=True))
    size = float(flat(advantage_validation(validation).gradient(scorer_of(policy)).values()).norm())
    random.Random(0).shuffle(samples)
    found = measured(scorer_of(policy, tokens=limit), samples, validation, budget=budget).each
    for sample, scored in zip(samples, found, strict=True):
        assert scored.gradient_norm == pytest.approx(expected[sample].gradient_norm, rel=1e-4)
        assert scored.influence == pytest.approx(expected[sample].influence, abs=1e-5 * scored.gradient_norm * size)


def test_a_sample_without_signal_has_no_influence(policy: Policy, samples: list[Sample]) -> None:
    scorer, silent = scorer_of(policy), [replace(samples[0], advantage=0.0), *samples[1:]]
    for validation in (samples, None):
        scored = measured(scorer, silent, validation).each
        assert (scored[0].influence, scored[0].gradient_norm) == (0.0, 0.0)
        assert all(s.influence and s.gradient_norm for s in scored[1:])
    mute = with_weights(samples, [0.0] * len(samples))
    assert not flat(advantage_validation(mute).gradient(scorer).values()).any()
    assert not any(s.influence for s in measured(scorer, mute, None).each)


@pytest.mark.parametrize("similarity", ["dot", "cosine", "local"])
@pytest.mark.parametrize("same_batch", [False, True])
@pytest.mark.parametrize("budget", [1, 2**30])
def test_with_validation_without_a_signal_no_sample_has_influence(
    budget: int, same_batch: bool, similarity: Any, policy: Policy, samples: list[Sample]
) -> None:
    mute = advantage_validation(with_weights(samples, [0.0] * len(samples)), same_batch)
    measure = Measure(similarity=similarity, budget=budget)
    assert all(s.influence == 0 for s in influences(scorer_of(policy), samples, BY_TOKEN, mute, measure).each)


CASES = pairwise_cases(
    similarity=["dot", "cosine", "local"],
    validation=["held out", "same batch", "leave_group_out"],
    budget=[100_000, 2**30],
)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_every_measure_is_its_formula(case: dict[str, Any], exact: Policy, make_samples: MakeSamples) -> None:
    """Against gradients of one sample at a time, float64."""
    similarity, same_batch = case["similarity"], case["validation"] != "held out"
    samples = make_samples(problems=5, seed=3)
    samples = [*samples, replace(samples[-1], member=99)]  # with an equal row
    others = samples if same_batch else make_samples(problems=4, seed=4)
    others = with_weights(others, [(-1) ** place * (place % 4) for place in range(len(others))])
    samples = with_weights(samples, [0.0 if place % 5 == 2 else s.advantage for place, s in enumerate(samples)])
    shares = [float(place % 3) for place in range(len(samples))]
    left_out = case["validation"] == "leave_group_out"
    measure = Measure(left_out, similarity=similarity, budget=case["budget"])
    validation = advantage_validation(others, same_batch)
    found = influences(scorer_of(exact), samples, BY_TOKEN, validation, measure, shares).each

    ours, theirs = score_rows(exact, samples), score_rows(exact, others)
    a = torch.tensor([-s.advantage for s in samples], dtype=torch.float64) / loss_denominator(samples, BY_TOKEN)
    c = torch.tensor([-s.advantage for s in others], dtype=torch.float64) / loss_denominator(others, BY_TOKEN)
    products = a * (ours @ (c @ theirs))
    if similarity != "dot":
        a, ours, theirs = a.sign(), ours / ours.norm(dim=1)[:, None], theirs / theirs.norm(dim=1)[:, None]
    c = c.sign() / len(others) if similarity == "cosine" else c
    near = ours @ theirs.T
    votes = (near.clamp(min=0) ** 3 if similarity == "local" else near) * c  # [n, validation samples]
    votes = without_own(votes, samples, measure) if same_batch else votes
    counted = votes.sum(1)
    if similarity == "local":
        weights, names = torch.tensor(shares, dtype=torch.float64), [s.problem_id for s in samples]
        groups = torch.tensor([[float(a == b) for b in names] for a in names], dtype=torch.float64)
        of_group = (groups @ (weights * counted)) / (groups @ weights)
        counted = counted - (of_group + (counted @ weights) / weights.sum()) / 2
    expected = a * counted
    for place, one in enumerate(found):
        size = float((a[place] * votes.abs().sum(1).max()).abs())
        assert one.influence == pytest.approx(float(expected[place]), rel=1e-7, abs=1e-9 * size)
        assert one.product == pytest.approx(float(products[place]), rel=1e-7, abs=1e-12)


def test_a_group_that_does_not_fit_is_named(policy: Policy, samples: list[Sample]) -> None:
    with pytest.raises(GraftError, match=r"influence\.memory_budget: .* problem 'p0' has .* at once; raise it, or"):
        measured(scorer_of(policy), samples, None, leave_group_out=True, budget=1)


def test_a_gradient_of_zero_has_no_cosine(policy: Policy, make_samples: MakeSamples) -> None:
    """B = 0 and A = 0: every gradient is 0, and 0 / 0 no number."""
    with torch.no_grad():
        for weight in adapter(policy):
            weight.zero_()
    found = measured(scorer_of(policy), make_samples(problems=2), None, similarity="cosine").each
    assert all(s.influence == 0 for s in found)
