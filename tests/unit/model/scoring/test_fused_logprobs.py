"""Fused log-probabilities, entropies and their gradients equal those of torch."""

import pytest
import torch

from tasks.model.scoring import logprobs
from tasks.model.scoring.logprobs import logprobs_and_entropies
from tests.support.devices import choosing

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
