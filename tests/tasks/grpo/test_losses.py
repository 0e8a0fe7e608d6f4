"""Laws of the GRPO loss."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.grpo.losses import reduce, token_losses

ROWS, WIDTH = 5, 7


def random_rows(seed: int) -> dict[str, torch.Tensor]:
    """Log-probabilities of one update, the policy having moved since sampling; the mask is ragged."""
    generator = torch.Generator().manual_seed(seed)
    behaviour = -3 * torch.rand(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, WIDTH + 1, (ROWS, 1), generator=generator)
    return {
        "logprobs": behaviour + 0.5 * torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64),
        "behaviour": behaviour,
        "reference": behaviour + 0.5 * torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64),
        "advantages": torch.randn(ROWS, generator=generator, dtype=torch.float64),
        "mask": torch.arange(WIDTH) < lengths,
    }


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_each_token_is_the_formula_of_the_paper(seed: int) -> None:
    rows = random_rows(seed)
    tokens = token_losses(**rows, clip_low=0.2, clip_high=0.3, beta=0.04)
    for i in range(ROWS):
        for t in range(WIDTH):
            lp, old, ref = (float(rows[name][i, t]) for name in ("logprobs", "behaviour", "reference"))
            advantage = float(rows["advantages"][i])
            ratio = math.exp(lp - old)
            k3 = math.exp(ref - lp) - (ref - lp) - 1
            gain = min(ratio * advantage, min(max(ratio, 0.8), 1.3) * advantage)
            real = bool(rows["mask"][i, t])
            assert float(tokens.loss[i, t]) == pytest.approx((-gain + 0.04 * k3) * real, abs=1e-12)
            assert float(tokens.kl[i, t]) == pytest.approx(k3 * real, abs=1e-12)
            assert float(tokens.ratio[i, t]) == pytest.approx(ratio * real, abs=1e-12)


@pytest.mark.parametrize(
    ("ratio", "advantage", "clipped"),
    [(1.0, 1.0, False), (1.5, 1.0, True), (1.5, -1.0, False), (0.5, 1.0, False), (0.5, -1.0, True), (1.5, 0.0, False)],
)
def test_a_clipped_token_has_no_gradient(ratio: float, advantage: float, clipped: bool) -> None:
    logprobs = torch.tensor([[math.log(ratio)]], requires_grad=True)
    mask = torch.ones(1, 1, dtype=torch.bool)
    tokens = token_losses(logprobs, torch.zeros(1, 1), None, torch.tensor([advantage]), mask, 0.2, 0.2, 0.0)
    (gradient,) = torch.autograd.grad(tokens.loss.sum(), logprobs)
    assert bool(tokens.clipped) == clipped
    assert float(gradient) == pytest.approx(0.0 if clipped else -ratio * advantage)


def test_at_ratio_one_the_gradient_is_minus_the_advantage() -> None:
    rows = random_rows(0) | {"reference": None}
    rows["logprobs"] = rows["behaviour"].clone().requires_grad_()
    tokens = token_losses(**rows, clip_low=0.2, clip_high=0.2, beta=0.0)
    (gradient,) = torch.autograd.grad(tokens.loss.sum(), rows["logprobs"])
    torch.testing.assert_close(gradient, -rows["advantages"][:, None] * rows["mask"])


def test_masked_tokens_give_nothing() -> None:
    rows = random_rows(1)
    rows["logprobs"].requires_grad_()
    tokens = token_losses(**rows, clip_low=0.2, clip_high=0.2, beta=0.1)
    (gradient,) = torch.autograd.grad(tokens.loss.sum(), rows["logprobs"])
    for values in (tokens.loss, tokens.ratio, tokens.clipped, tokens.kl, gradient):
        assert not values[~rows["mask"]].any()


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_kl_estimate_is_never_negative(seed: int) -> None:
    rows = random_rows(seed)
    assert (token_losses(**rows, clip_low=0.2, clip_high=0.2, beta=0.1).kl >= 0).all()
    same = rows | {"reference": rows["logprobs"]}
    assert not token_losses(**same, clip_low=0.2, clip_high=0.2, beta=0.1).kl.any()


@given(st.integers(1, ROWS))
def test_micro_batches_add_up_to_the_whole(cut: int) -> None:
    rows = random_rows(2)
    loss, mask = rows["logprobs"], rows["mask"]
    parts = reduce(loss[:cut], mask[:cut], 23) + reduce(loss[cut:], mask[cut:], 23)
    torch.testing.assert_close(parts, reduce(loss, mask, 23))
