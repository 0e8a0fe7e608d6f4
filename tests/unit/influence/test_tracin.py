"""Influence predicts what a gradient step does to the validation loss.

gpt2 where float64 must be float64: the other architectures normalise in float32 whatever the model's type is.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch

from tasks.errors import GraftError
from tasks.influence.loss_gradients import loss_denominator, loss_gradient
from tasks.influence.sample_gradients import Direction, lora_factors
from tasks.influence.selection import select
from tasks.influence.tracin import Measure, SampleInfluence, influences
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import Layout
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tests.support.pairwise import case_name, pairwise_cases
from tests.support.plain_scores import sample_logprobs
from tests.support.validation import advantage_validation

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]

BY_TOKEN = TokenWeights("dapo", longest=64)


def scorer(policy: Policy, layout: Layout = "packed", tokens: int = 2048) -> Scorer:
    return Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7, layout, tokens)


def loss_of(policy: Policy, samples: list[Sample], tokens: int) -> torch.Tensor:
    logprobs = sample_logprobs(policy.model, samples, 0.7)
    return -(logprobs.sum(1) * logprobs.new_tensor([s.advantage for s in samples])).sum() / tokens


def gradient_of(policy: Policy, samples: list[Sample], tokens: int) -> list[torch.Tensor]:
    weights = [module.weight for module in lora_factors(policy.model).values()]
    return list(torch.autograd.grad(loss_of(policy, samples, tokens), weights))


def flat(direction: Direction) -> torch.Tensor:
    return torch.cat([value.flatten() for value in direction.values()])


def measured(
    scorer: Scorer, samples: list[Sample], validation: list[Sample] | None, **measure: Any
) -> list[SampleInfluence]:
    """By token; without validation samples, against the samples themselves."""
    judges = advantage_validation(validation or samples, BY_TOKEN, same_batch=validation is None)
    return influences(scorer, samples, BY_TOKEN, judges, Measure(**measure)).each


def test_a_step_on_a_selected_sample_lowers_the_validation_loss_and_on_a_rejected_one_raises_it(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """float64, step 1e-4: change / (-step · influence) within 1 %, sign right for every sample."""
    policy = make_policy("gpt2", "float64")
    training, validation = make_samples(problems=8, seed=1), make_samples(problems=16, seed=2)
    scored = measured(scorer(policy), training, validation)
    kept = select("positive", [s.advantage for s in training], [s.influence for s in scored])
    assert 4 <= sum(kept) <= len(kept) - 4

    weights = [module.weight for module in lora_factors(policy.model).values()]
    before = loss_of(policy, validation, loss_denominator(validation, BY_TOKEN)).item()
    changes = []
    for sample in training:
        gradient = gradient_of(policy, [sample], loss_denominator(training, BY_TOKEN))
        with torch.no_grad():
            for weight, g in zip(weights, gradient, strict=True):
                weight -= 1e-4 * g
            changes.append(loss_of(policy, validation, loss_denominator(validation, BY_TOKEN)).item() - before)
            for weight, g in zip(weights, gradient, strict=True):
                weight += 1e-4 * g
    assert [float(change < 0) for change in changes] == kept
    predicted = torch.tensor([1e-4 * s.influence for s in scored], dtype=torch.float64)
    slope = float((torch.tensor(changes, dtype=torch.float64) @ predicted) / (predicted @ predicted))
    assert -1.01 <= slope <= -0.99


def test_the_gradient_of_a_loss_is_of_the_written_out_loss(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy("gpt2", "float64"), make_samples(problems=6)
    silent = [replace(s, advantage=0.0) if s.problem_id == "p2" else s for s in samples]
    expected = torch.cat([g.flatten() for g in gradient_of(policy, silent, loss_denominator(silent, BY_TOKEN))])
    for layout in get_args(Layout):
        got = flat(loss_gradient(scorer(policy, layout), silent, BY_TOKEN))
        assert (got - expected).norm() <= 1e-9 * expected.norm()


@pytest.mark.parametrize("budget", [1, 2**30], ids=["two passes", "one pass"])
def test_the_same_batch_as_validation_has_mean_influence_of_its_squared_gradient(
    budget: int, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy("gpt2", "float64"), make_samples()
    samples = [*samples, replace(samples[0], member=99)]  # with an equal row
    direction = loss_gradient(scorer(policy), samples, BY_TOKEN)
    scored = measured(scorer(policy), samples, None, budget=budget)
    for ours, theirs in zip(scored, measured(scorer(policy), samples, samples), strict=True):
        assert ours.influence == pytest.approx(theirs.influence, rel=1e-8, abs=1e-14)
    mean = sum(s.influence for s in scored) / len(scored)
    assert mean == pytest.approx(float(flat(direction).square().sum()) / len(scored), rel=1e-9)
    assert mean > 0


@pytest.mark.parametrize("budget", [1, 2**30], ids=["two passes", "one pass"])
def test_without_itself_a_sample_is_judged_by_the_others(
    budget: int, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy("gpt2", "float64"), make_samples(problems=3)
    scored = measured(scorer(policy), samples, None, exclude_self=True, budget=budget)
    denominator = loss_denominator(samples, BY_TOKEN)
    for place, sample in enumerate(samples):
        own = gradient_of(policy, [sample], denominator)
        others = gradient_of(policy, samples[:place] + samples[place + 1 :], denominator)
        expected = sum(float((g * o).sum()) for g, o in zip(own, others, strict=True))
        assert scored[place].influence == pytest.approx(expected, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize(
    ("limit", "budget"), [(1, 2**30), (40, 2**30), (10_000, 2**30), (10_000, 1), (10_000, 500_000)]
)
def test_micro_batches_order_and_memory_never_change_influence(
    limit: int, budget: int, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples, validation = make_policy(), make_samples(), make_samples(seed=9)
    expected = dict(zip(samples, measured(scorer(policy), samples, validation), strict=True))
    size = float(flat(loss_gradient(scorer(policy), validation, BY_TOKEN)).norm())
    random.Random(0).shuffle(samples)
    cut = scorer(policy, tokens=limit)
    for sample, scored in zip(samples, measured(cut, samples, validation, budget=budget), strict=True):
        assert scored.gradient_norm == pytest.approx(expected[sample].gradient_norm, rel=1e-4)
        assert scored.influence == pytest.approx(expected[sample].influence, abs=1e-5 * scored.gradient_norm * size)


def test_a_sample_without_signal_has_no_influence(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy(), make_samples()
    silent = [replace(samples[0], advantage=0.0), *samples[1:]]
    for validation in (samples, None):
        scored = measured(scorer(policy), silent, validation)
        assert (scored[0].influence, scored[0].gradient_norm) == (0.0, 0.0)
        assert all(s.influence and s.gradient_norm for s in scored[1:])
    mute = [replace(s, advantage=0.0) for s in samples]
    assert not flat(loss_gradient(scorer(policy), mute, BY_TOKEN)).any()
    assert not any(s.influence for s in measured(scorer(policy), mute, None))


@pytest.mark.parametrize("similarity", ["dot", "cosine", "centred", "local"])
@pytest.mark.parametrize("same_batch", [False, True])
@pytest.mark.parametrize("budget", [1, 2**30])
def test_validation_without_a_signal_gives_none_influence(
    budget: int, same_batch: bool, similarity: Any, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    mute = advantage_validation(with_weights(samples, [0.0] * len(samples)), BY_TOKEN, same_batch)
    measure = Measure(similarity=similarity, budget=budget)
    assert all(s.influence == 0 for s in influences(scorer(policy), samples, BY_TOKEN, mute, measure).each)


def scores_of(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    """∇ Σ_t log p of each, written out: [n, P]."""
    weights = [module.weight for module in lora_factors(policy.model).values()]
    rows = []
    for sample in samples:
        gradient = torch.autograd.grad(sample_logprobs(policy.model, [sample], 0.7).sum(), weights)
        rows.append(torch.cat([g.flatten() for g in gradient]))
    return torch.stack(rows)


def with_weights(samples: list[Sample], weights: Sequence[float]) -> list[Sample]:
    return [replace(s, advantage=weight) for s, weight in zip(samples, weights, strict=True)]


CASES = pairwise_cases(
    similarity=["dot", "cosine", "centred", "local"],
    validation=["held out", "same batch", "exclude_self", "leave_group_out"],
    adam=[None, 2],
    budget=[100_000, 2**30],
)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_every_measure_is_its_formula(case: dict[str, Any], make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """Against gradients of one sample at a time, float64; the two losses weigh the samples differently."""
    policy, samples = make_policy("gpt2", "float64"), make_samples(problems=5, seed=3)
    same_batch = case["validation"] != "held out"
    samples = [*samples, replace(samples[-1], member=99)]  # with an equal row
    own = [0.0 if place % 5 == 2 else s.advantage for place, s in enumerate(samples)]
    others = samples if same_batch else make_samples(problems=4, seed=4)
    judged = with_weights(others, [(-1) ** place * (place % 4) for place in range(len(others))])
    samples = with_weights(samples, own)
    validation = advantage_validation(judged, TokenWeights("grpo", longest=64), same_batch)
    shares = [float(place % 3) for place in range(len(samples))]
    left_out = {case["validation"]: True} if case["validation"] in ("exclude_self", "leave_group_out") else {}
    measure = Measure(similarity=case["similarity"], adam=case["adam"], budget=case["budget"], **left_out)
    found = influences(scorer(policy), samples, BY_TOKEN, validation, measure, shares).each

    score = scores_of(policy, samples)
    a = -torch.tensor(own, dtype=torch.float64) / loss_denominator(samples, BY_TOKEN)
    c = torch.tensor([-s.advantage / len(s.completion) / len(judged) for s in judged], dtype=torch.float64)
    theirs = score if same_batch else scores_of(policy, judged)
    products = a * (score @ (c @ theirs))
    scale = torch.ones(score.shape[1], dtype=torch.float64)
    if case["adam"]:
        names = list(dict.fromkeys(s.problem_id for s in samples))
        squares = torch.zeros_like(scale)
        for start in (0, 2, 4):
            step = [i for i, s in enumerate(samples) if s.problem_id in names[start : start + 2]]
            weights = torch.tensor([-own[i] for i in step], dtype=torch.float64)
            squares += (weights @ score[step] / loss_denominator([samples[i] for i in step], BY_TOKEN)) ** 2 / 3
        scale = 1 / (squares.sqrt() + 1e-8)
    ours = score
    if case["similarity"] != "dot":
        a = a.sign()
    if case["similarity"] == "local":
        ours, theirs, scale = ours * scale.sqrt(), theirs * scale.sqrt(), torch.ones(())
    if case["similarity"] != "dot":
        ours, theirs = ours / ours.norm(dim=1)[:, None], theirs / theirs.norm(dim=1)[:, None]
    c = c.sign() / len(judged) if case["similarity"] in ("cosine", "centred") else c
    near = (ours * scale) @ theirs.T
    votes = (near.clamp(min=0) ** 3 if case["similarity"] == "local" else near) * c  # [n, validation samples]
    for i, sample in enumerate(samples if same_batch else []):
        for j, other in enumerate(judged):
            group = measure.leave_group_out and other.problem_id == sample.problem_id
            if group or (measure.exclude_self and i == j):
                votes[i, j] = 0
    counted = votes.sum(1)
    if case["similarity"] in ("centred", "local"):
        weights, names = torch.tensor(shares, dtype=torch.float64), [s.problem_id for s in samples]
        groups = torch.tensor([[float(a == b) for b in names] for a in names], dtype=torch.float64)
        of_group = (groups @ (weights * counted)) / (groups @ weights)
        counted = counted - (of_group + (counted @ weights) / weights.sum()) / 2
    expected = a * counted
    for place, one in enumerate(found):
        size = float((a[place] * votes.abs().sum(1).max()).abs())
        assert one.influence == pytest.approx(float(expected[place]), rel=1e-7, abs=1e-9 * size)
        assert one.product == pytest.approx(float(products[place]), rel=1e-7, abs=1e-12)


def test_a_group_that_does_not_fit_is_named(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy(), make_samples()
    with pytest.raises(GraftError, match=r"influence\.memory_budget: .* problem 'p0' has .* at once; raise it, or"):
        measured(scorer(policy), samples, None, leave_group_out=True, budget=1)


def test_a_gradient_of_nothing_has_no_cosine(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """B = 0 and A = 0: every gradient is 0, and 0 / 0 no number."""
    policy, samples = make_policy(), make_samples(problems=2)
    with torch.no_grad():
        for module in lora_factors(policy.model).values():
            module.weight.zero_()
    assert all(s.influence == 0 for s in measured(scorer(policy), samples, None, similarity="cosine"))
