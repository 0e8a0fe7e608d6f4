"""A drawn token follows the softmax, whole or truncated as by transformers, for any vocabulary, row by row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import LogitsProcessorList, TopKLogitsWarper, TopPLogitsWarper

from tasks.model.cpu.decoder_blocks import decode_blocks
from tasks.model.decoding.decode_loop import decode
from tasks.model.decoding.token_draw import BLOCK, ONE_LEVEL_TOKENS, Truncation, draw, uniforms
from tasks.model.hf_model import unwrap_model
from tasks.model.policy import Policy
from tasks.model.sampling.backends import pick_backend
from tasks.model.sampling.sampler import Request, sample
from tasks.records.search import Completion
from tests.support.pairwise import pairwise_cases
from tests.support.policies import MakePolicy

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


@pytest.mark.parametrize("tokens", [300, 1300])
def test_points_that_share_a_row_draw_what_they_draw_from_copies_of_it(tokens: int) -> None:
    logits, points = random_logits(5, tokens), uniforms(range(37), 1)[:, 0]
    places = torch.arange(37) * 3 % 5
    for shared, copied in zip(draw(logits, points, places), draw(logits[places], points), strict=True):
        assert torch.equal(shared, copied)


def test_numbers_depend_on_the_seed_and_more_steps_extend_them() -> None:
    short, long = uniforms([3, 4], 5), uniforms([4, 3, 5], 9)
    assert torch.equal(short[0], long[1, :5])
    assert torch.equal(short[1], long[0, :5])
    assert len(set(long.flatten().tolist())) == 27
    assert 0 <= long.min() <= long.max() < 1


TEMPERATURE = 0.8
TRUNCATIONS = [Truncation(*each) for each in ((0.9, 5), (0.9, 0), (1.0, 5), (0.3, 40), (0.01, 0), (1.0, 1))]


def warped(scaled: torch.Tensor, truncation: Truncation) -> torch.Tensor:
    """By transformers, -inf outside of the kept sets."""
    warpers = LogitsProcessorList()
    if truncation.top_k:
        warpers.append(TopKLogitsWarper(truncation.top_k))
    if truncation.top_p < 1:
        warpers.append(TopPLogitsWarper(truncation.top_p))
    found: torch.Tensor = warpers(torch.empty(0), scaled)
    return found


@pytest.mark.parametrize("truncation", TRUNCATIONS)
@pytest.mark.parametrize(("rows", "vocabulary", "spread"), [(64, 300, 3.0), (64, 40, 0.1), (8, 3000, 5.0)])
def test_kept_sets_are_those_of_transformers(truncation: Truncation, rows: int, vocabulary: int, spread: float) -> None:
    scaled = spread * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    assert torch.equal(truncation.kept(scaled), warped(scaled, truncation).isfinite())


def requests() -> list[Request]:
    """Prompts of unlike lengths, one with a prefix that was drawn before."""
    prompts = [[5, 9, 200, 31, 77], [17, 4], [17, 4], [7, 7, 250]]
    rows = [Request(prompt, seed) for seed, prompt in enumerate(prompts)]
    return [*rows, Request([17], 9, Completion(tokens=[4, 30], logprobs=[-1.0, -2.0], kept=[[4, 5], [30]]))]


def followed(policy: Policy, request: Request, truncation: Truncation) -> Completion:
    """Token by token through plain forward passes, with transformers' warpers, in float64."""
    done = request.prefix
    for point in uniforms([request.seed], 12)[0].tolist()[: request.budget(12)]:
        with torch.no_grad():
            logits = unwrap_model(policy.model)(input_ids=torch.tensor([[*request.prompt, *done.tokens]])).logits[:, -1]
        logprobs = warped(logits.double() / TEMPERATURE, truncation).log_softmax(-1)[0]
        token = int((logprobs.exp().cumsum(-1) > point).nonzero()[0])
        done = Completion(
            tokens=[*done.tokens, token],
            logprobs=[*done.logprobs, float(logprobs[token])],
            kept=[*done.kept, logprobs.isfinite().nonzero()[:, 0].tolist()],
        )
        if token == policy.tokenizer.eos_token_id:
            break
    return done


@pytest.mark.parametrize("truncation", TRUNCATIONS)
@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
def test_completions_are_drawn_from_the_truncated_distribution(
    kind: str, truncation: Truncation, make_policy: MakePolicy
) -> None:
    policy = make_policy(kind)
    found = sample(policy, requests(), TEMPERATURE, 12, "test", truncation)
    for request, completion in zip(requests(), found, strict=True):
        expected = followed(policy, request, truncation)
        assert (completion.tokens, completion.kept) == (expected.tokens, expected.kept)
        assert completion.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert pick_backend(policy, [5]) is {"qwen2": decode_blocks, "gpt2": decode}[kind]
