"""Sampling by the inverse CDF follows the softmax for vocabularies of any size, each row independently."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.model.decoding.token_draw import BLOCK, ONE_LEVEL_TOKENS, draw, uniforms
from tests.support.pairwise import pairwise_cases

SIZES = [1, 2, BLOCK + 1, *(ONE_LEVEL_TOKENS + more for more in (0, 1, BLOCK, BLOCK + 1))]
JUST_BELOW_ONE = 1 - 2**-53
POINTS = [0.0, 2**-53, 0.5, JUST_BELOW_ONE]


def random_logits(rows: int, tokens: int, seed: int = 0, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, tokens, generator=torch.Generator().manual_seed(seed)) * spread


@pytest.mark.parametrize("tokens", SIZES)
@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_token_is_where_the_cumulative_sum_passes_the_point(tokens: int, seed: int) -> None:
    logits, points = random_logits(16, tokens, seed), uniforms(range(seed, seed + 16), 1)[:, 0]
    chosen, logprobs = draw(logits, points)
    exact = logits.double().softmax(-1).cumsum(-1)
    above = exact.gather(1, chosen[:, None])[:, 0]
    below = above - logits.double().softmax(-1).gather(1, chosen[:, None])[:, 0]
    assert ((below - 1e-6 <= points) & (points <= above + 1e-6)).all()
    expected = logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]
    assert torch.allclose(logprobs, expected, atol=1e-5)


CASES = pairwise_cases(tokens=SIZES[1:], point=POINTS, dtype=[torch.float64, torch.float32])


@pytest.mark.parametrize(("tokens", "point", "dtype"), [case.values() for case in CASES])
def test_a_token_of_probability_zero_is_never_drawn(tokens: int, point: float, dtype: torch.dtype) -> None:
    """In float32, for devices without float64, the last point is 1 itself."""
    for seed in range(20):
        logits = random_logits(8, tokens, seed)
        kept = torch.rand(8, tokens, generator=torch.Generator().manual_seed(seed)) < 0.02
        kept[torch.arange(8), torch.randint(tokens, (8,), generator=torch.Generator().manual_seed(seed))] = True
        logits[~kept] = -torch.inf
        chosen, logprobs = draw(logits, torch.full((8,), point, dtype=dtype))
        assert kept[torch.arange(8), chosen].all()
        assert torch.isfinite(logprobs).all()
        if point in (0.0, JUST_BELOW_ONE):
            places = kept.nonzero()
            ends = torch.stack([places[places[:, 0] == row][0 if point == 0 else -1, 1] for row in range(8)])
            likely = logits.softmax(-1).gather(1, ends[:, None])[:, 0] > 1e-5
            assert (chosen == ends)[likely].all()


@pytest.mark.parametrize("tokens", [300, 1300])
def test_a_row_is_the_same_to_the_last_bit_alone_and_in_a_batch(tokens: int) -> None:
    logits, points = random_logits(37, tokens), uniforms(range(37), 1)[:, 0]
    together = draw(logits, points)
    for row in range(37):
        alone = draw(logits[row : row + 1], points[row : row + 1])
        assert torch.equal(alone[0][0], together[0][row])
        assert torch.equal(alone[1][0], together[1][row])


def test_numbers_depend_on_the_seed_and_more_steps_extend_them() -> None:
    short, long = uniforms([3, 4], 5), uniforms([4, 3, 5], 9)
    assert torch.equal(short[0], long[1, :5])
    assert torch.equal(short[1], long[0, :5])
    assert len(set(long.flatten().tolist())) == 27
    assert 0 <= long.min() <= long.max() < 1
