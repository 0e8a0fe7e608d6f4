"""Log-probabilities, entropies and their gradients equal those of torch, over all tokens and over kept sets."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from tasks.model.cpu import limits
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring import logprobs
from tasks.model.scoring.logprobs import logprobs_and_entropies
from tasks.model.scoring.micro_batches import RowLayout
from tests.support.devices import choosing
from tests.support.influence import scorer_of
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.truncated_samples import drawn, kept_scores
from tests.support.updates import TRAINING_LAYOUTS, gradient_of

ROWS, TOKENS = torch.tensor([0, 2, 2, 2, 4]), torch.tensor([3, 1, 1, 0, 5])  # rows without a token, one with a twin


def plain(logits: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    given = torch.distributions.Categorical(logits=logits / temperature)
    return given.logits[ROWS, TOKENS], given.entropy()[ROWS]


def logits_of(seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    drawn = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (3 * drawn).to(dtype).requires_grad_()


@pytest.mark.parametrize("device_kind", ["cpu", "cuda"], ids=["exp once", "log_softmax"])
@pytest.mark.parametrize("temperature", [1.0, 0.7, 2.0])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (0.6, -0.3)])
def test_values_and_gradients_are_exact(
    temperature: float, weights: tuple[float, float], device_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logprobs, "for_device", choosing(device_kind))
    each = torch.tensor([1.0, -2.0, 0.5, 3.0, 0.1], dtype=torch.float64)
    ours, theirs = logits_of(), logits_of()
    found, expected = logprobs_and_entropies(ours, ROWS, TOKENS, temperature), plain(theirs, temperature)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    gradients = []
    for values, logits in ((found, ours), (expected, theirs)):
        total = sum((weight * each * value).sum() for weight, value in zip(weights, values, strict=True))
        gradients += torch.autograd.grad(total, logits)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-11, atol=1e-12)


def test_each_token_may_have_its_own_temperature() -> None:
    own = torch.tensor([0.7, 2.0, 2.0, 2.0, 1.0], dtype=torch.float64)  # one for the three tokens of a row
    ours, theirs = logits_of(), logits_of()
    found = logprobs_and_entropies(ours, ROWS, TOKENS, own)
    expected = [plain(theirs, float(temperature)) for temperature in own]
    for place in (0, 1):
        wanted = torch.stack([values[place][row] for row, values in enumerate(expected)])
        torch.testing.assert_close(found[place], wanted, rtol=1e-12, atol=1e-12)
        both = ((found[place], ours), (wanted, theirs))
        one, other = (torch.autograd.grad(values.sum(), logits, retain_graph=True)[0] for values, logits in both)
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


TEMPERATURE = 0.7


def mixed_samples(policy: Policy, samples: Sequence[Sample]) -> list[Sample]:
    """Drawn from kept sets, but for every fourth, whose sets are not known: a revision.

    One problem has a temperature of its own.
    """
    samples = [replace(s, temperature=1.3 if s.problem_id == "p1" else None) for s in samples]
    found = drawn(policy, samples, TEMPERATURE)
    return [s if place % 4 == 3 else own for place, (s, own) in enumerate(zip(samples, found, strict=True))]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("layout", TRAINING_LAYOUTS)
def test_every_layout_scores_over_the_kept_sets(
    layout: RowLayout,
    chunked: bool,
    make_policy: MakePolicy,
    make_samples: MakeSamples,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = make_policy()
    samples = mixed_samples(policy, make_samples(problems=5, group=4))
    if chunked:
        monkeypatch.setattr(limits, "LOGITS_BYTES", 3 * 4 * 300 * 7)
    scorer, total, expected = scorer_of(policy, layout), 0.0, torch.zeros(())
    policy.model.zero_grad()
    for batch in scorer.batches(samples):
        scored = scorer.score(batch)
        weights = scored.logprobs.new_tensor([s.advantage for s in batch.samples])
        loss = ((scored.logprobs + 0.3 * scored.entropies).sum(1) * weights).sum()
        loss.backward()
        total += float(loss.detach())
        for s, row, entropies in zip(batch.samples, scored.logprobs, scored.entropies, strict=True):
            plain, plain_entropies = kept_scores(policy.model, s, TEMPERATURE)
            torch.testing.assert_close(row[: len(plain)], plain, atol=1e-5, rtol=0)
            torch.testing.assert_close(entropies[: len(plain)], plain_entropies, atol=1e-5, rtol=0)
            expected = expected + s.advantage * (plain + 0.3 * plain_entropies).sum()
    gradient = gradient_of(policy)
    policy.model.zero_grad()
    expected.backward()
    assert total == pytest.approx(float(expected.detach()), abs=1e-3)
    assert (gradient - gradient_of(policy)).norm() <= 1e-5 * gradient.norm()
