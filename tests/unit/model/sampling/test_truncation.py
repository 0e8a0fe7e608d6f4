"""Kept sets and log-probabilities are those of transformers' own top-k and top-p; nothing outside is ever drawn."""

import pytest
import torch
from transformers.generation.logits_process import LogitsProcessorList, TopKLogitsWarper, TopPLogitsWarper

from tasks.model.hf_model import unwrap_model
from tasks.model.policy import Policy
from tasks.model.sampling.backends import pick_backend
from tasks.model.sampling.decode_loop import decode, decode_blocks
from tasks.model.sampling.inverse_cdf import uniforms
from tasks.model.sampling.sampler import Request, sample
from tasks.model.sampling.truncation import Truncation
from tasks.records.search import Completion
from tests.support.policies import MakePolicy

TEMPERATURE = 0.8
CASES = [Truncation(*each) for each in ((0.9, 5), (0.9, 0), (1.0, 5), (0.3, 40), (0.01, 0), (1.0, 1))]


def warped(scaled: torch.Tensor, truncation: Truncation) -> torch.Tensor:
    """By transformers, -inf outside of the kept sets."""
    warpers = LogitsProcessorList()
    if truncation.top_k:
        warpers.append(TopKLogitsWarper(truncation.top_k))
    if truncation.top_p < 1:
        warpers.append(TopPLogitsWarper(truncation.top_p))
    found: torch.Tensor = warpers(torch.empty(0), scaled)
    return found


@pytest.mark.parametrize("truncation", CASES)
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


@pytest.mark.parametrize("truncation", CASES)
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
