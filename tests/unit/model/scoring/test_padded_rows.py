"""Log-probabilities in a padded batch equal those of each row alone."""

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.layouts import PaddedBatch, collate
from tasks.model.scoring.logprobs import token_logprobs
from tests.support.plain_scores import completion_logprobs, unpadded_logprobs
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.updates import gradient_of


def batch_of(samples: list[Sample]) -> PaddedBatch:
    return collate([list(s.prompt) for s in samples], [list(s.completion) for s in samples], pad=0)


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_a_padded_batch_scores_each_row_as_if_it_were_alone(
    kind: str, temperature: float, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(kind), make_samples()
    batch = batch_of(samples)
    scores = completion_logprobs(policy.model, batch, temperature)
    assert scores.dtype == torch.float32
    assert not scores[~batch.mask].any()
    for row, mask, sample in zip(scores, batch.mask, samples, strict=True):
        torch.testing.assert_close(row[mask], unpadded_logprobs(policy.model, sample, temperature), atol=1e-5, rtol=0)


def test_collate_pads_prompts_on_the_left_and_completions_on_the_right() -> None:
    batch = collate([[5], [6, 7, 8]], [[9, 1], [1]], pad=0)
    assert batch.ids.tolist() == [[0, 0, 5, 9, 1], [6, 7, 8, 1, 0]]
    assert batch.attention.tolist() == [[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]]
    assert batch.positions.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 3]]
    assert batch.completion.tolist() == [[9, 1], [1, 0]]
    assert batch.mask.tolist() == [[True, True], [True, False]]


def test_the_gradient_reaches_the_adapter_and_padding_adds_nothing_to_it(policy: Policy, samples: list[Sample]) -> None:

    def gradient(batches: list[list[Sample]]) -> torch.Tensor:
        policy.model.zero_grad()
        for rows in batches:
            completion_logprobs(policy.model, batch_of(rows), 1.0).sum().backward()
        return gradient_of(policy)

    together, alone = gradient([samples]), gradient([[s] for s in samples])
    assert together.norm() > 0
    assert (together - alone).norm() <= 1e-5 * alone.norm()


def test_token_log_probabilities_of_a_vocabulary_sum_to_one_and_keep_float64() -> None:
    logits = torch.randn(3, 1, 20, generator=torch.Generator().manual_seed(0)).expand(3, 20, 20)
    tokens = torch.arange(20).expand(3, 20)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        scores = token_logprobs(logits.to(dtype), tokens, 0.7)
        assert scores.dtype == torch.promote_types(dtype, torch.float32)
        assert scores.exp().sum(-1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
