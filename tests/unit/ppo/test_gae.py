"""Laws of advantages, returns and the value loss: closed forms, padding, order of rows, whitening."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.ppo.gae import estimate_advantages, token_rewards, whiten
from tasks.ppo.losses import value_losses

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
SEEDS = st.integers(0, 10_000)
SHARES = st.floats(0, 1)


def batch(seed: int, rows: int = 5, tokens: int = 7) -> Batch:
    """Rewards, values and a mask of rows of 1 to `tokens` tokens; what is padded holds numbers, too."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, tokens + 1, (rows,), generator=generator)
    given = torch.randn(2, rows, tokens, generator=generator, dtype=torch.float64)
    return given[0], given[1], torch.arange(tokens) < lengths[:, None]


def later_sums(rewards: torch.Tensor) -> torch.Tensor:
    return rewards.flip(1).cumsum(1).flip(1)


@given(SEEDS)
def test_with_lambda_and_gamma_1_it_is_the_sum_of_later_rewards_minus_the_value(seed: int) -> None:
    rewards, values, mask = batch(seed)
    advantages, returns = estimate_advantages(rewards, values, mask, 1.0, 1.0)
    sums = later_sums(rewards * mask)
    torch.testing.assert_close(advantages, (sums - values) * mask)
    torch.testing.assert_close(returns, sums * mask)


@given(SEEDS, SHARES, SHARES)
def test_padding_and_the_order_of_the_rows_change_nothing(seed: int, gamma: float, lam: float) -> None:
    rewards, values, mask = batch(seed)
    plain = estimate_advantages(rewards, values, mask, gamma, lam)
    more = [torch.cat([own, torch.full((5, 3), 9.0)], 1) for own in (rewards, values)]
    wider = estimate_advantages(*more, torch.cat([mask, torch.zeros(5, 3, dtype=torch.bool)], 1), gamma, lam)
    order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
    moved = estimate_advantages(rewards[order], values[order], mask[order], gamma, lam)
    for own, wide, other in zip(plain, wider, moved, strict=True):
        assert torch.equal(wide[:, :7], own)
        assert not wide[:, 7:].any()
        assert torch.equal(other, own[order])
        assert not own[~mask].any()


@given(SEEDS)
def test_whitened_tokens_have_mean_0_and_variance_1_together(seed: int) -> None:
    rewards, _, mask = batch(seed, rows=6)
    whitened = whiten(rewards, mask)
    assert not whitened[~mask].any()
    tokens = whitened[mask]
    assert float(tokens.mean()) == pytest.approx(0, abs=1e-9)
    assert float(tokens.var()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("rows", [1, 3])
def test_equal_advantages_become_0_and_a_single_token_too(rows: int) -> None:
    mask = torch.zeros(rows, 4, dtype=torch.bool)
    mask[:, 0] = True
    assert torch.equal(whiten(torch.full((rows, 4), 0.7), mask), torch.zeros(rows, 4))


def test_the_reward_comes_with_the_last_token_and_the_kl_with_each() -> None:
    mask = torch.tensor([[True, True, False], [True, True, True]])
    kl = torch.tensor([[0.1, 0.2, 9.0], [0.3, 0.4, 0.5]])
    found = token_rewards(torch.tensor([1.0, 2.0]), kl, mask, 0.5)
    torch.testing.assert_close(found, torch.tensor([[-0.05, 0.9, 0.0], [-0.15, -0.2, 1.75]]))


@given(SEEDS)
def test_the_gradient_of_the_value_loss_is_the_error_and_0_where_padded(seed: int) -> None:
    values, returns = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(seed))
    mask = torch.rand(4, 5, generator=torch.Generator().manual_seed(seed)) < 0.7
    loss = value_losses(values.requires_grad_(), returns, mask)
    assert not loss[~mask].any()
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    torch.testing.assert_close(gradient, (values.detach() - returns) * mask)
