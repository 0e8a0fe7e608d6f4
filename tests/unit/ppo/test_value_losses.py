"""The value loss: its gradient is v - R, and what is padded has none."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.ppo.losses import value_losses

SEEDS = st.integers(0, 10_000)


@given(SEEDS)
def test_the_gradient_is_the_error(seed: int) -> None:
    values, returns = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(seed))
    mask = torch.rand(4, 5, generator=torch.Generator().manual_seed(seed)) < 0.7
    loss = value_losses(values.requires_grad_(), returns, mask)
    assert not loss[~mask].any()
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    torch.testing.assert_close(gradient, (values.detach() - returns) * mask)
