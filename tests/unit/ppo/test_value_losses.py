"""The clipped value loss: its gradient, exactly 0 where the clip took it, and v - R where nothing has moved."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.ppo.losses import value_losses

SEEDS = st.integers(0, 10_000)


def gradient(
    values: torch.Tensor, before: torch.Tensor, returns: torch.Tensor, clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """∇ of the sum of the losses by the values, and where the clip acted."""
    values = values.clone().requires_grad_()
    found = value_losses(values, before, returns, torch.ones_like(values, dtype=torch.bool), clip)
    return torch.autograd.grad(found.loss.sum(), values)[0], found.clipped


@given(SEEDS, st.floats(0.01, 1))
def test_the_gradient_is_0_where_the_bounded_error_is_larger_and_else_the_error(seed: int, clip: float) -> None:
    values, before, returns = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(seed))
    found, clipped = gradient(values, before, returns, clip)
    bounded = torch.clamp(values, before - clip, before + clip)
    larger = (bounded - returns).square() > (values - returns).square()
    assert torch.equal(clipped, larger)
    assert torch.equal(found[larger], torch.zeros_like(found[larger]))
    torch.testing.assert_close(found[~larger], (values - returns)[~larger])


@given(SEEDS)
def test_at_the_values_before_the_update_the_gradient_is_the_error(seed: int) -> None:
    before, returns = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(seed))
    for clip in (None, 0.2):
        found, clipped = gradient(before, before, returns, clip)
        torch.testing.assert_close(found, before - returns)
        assert not clipped.any()


@pytest.mark.parametrize("clip", [None, 0.2])
def test_what_is_padded_has_no_loss(clip: float | None) -> None:
    values, mask = torch.ones(1, 2), torch.tensor([[True, False]])
    assert value_losses(values, values, values + 1, mask, clip).loss.tolist() == [[0.5, 0.0]]
