"""Trees give what padded rows give, in value and gradient."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

from tasks.policy.base import Policy
from tasks.policy.samples import Sample
from tasks.policy.tree_batch import Scorer, pack, plant, scorer_of, size

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]


def scores_and_gradient(
    policy: Policy, samples: list[Sample], shared: bool, temperature: float = 0.7, tokens: int = 2048
) -> tuple[dict[tuple[str, int], torch.Tensor], torch.Tensor]:
    """Log-probabilities of each sample, and the gradient of their weighted sum."""
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, temperature, shared, tokens)
    policy.model.zero_grad()
    scores = {}
    for trees in scorer.batches(samples):
        rows = [s for tree in trees for s in tree]
        logprobs, mask = scorer.logprobs(trees)
        assert not logprobs[~mask].any()
        (logprobs.sum(1) * logprobs.new_tensor([s.advantage for s in rows])).sum().backward()
        for row, kept, sample in zip(logprobs.detach(), mask, rows, strict=True):
            scores[sample.problem_id, sample.member] = row[kept]
    return scores, torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_trees_equal_padded_rows_in_value_and_gradient(
    kind: str, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(kind), make_samples(problems=5, group=4)
    trees, tree_gradient = scores_and_gradient(policy, samples, shared=True)
    rows, row_gradient = scores_and_gradient(policy, samples, shared=False)
    assert trees.keys() == rows.keys() == {(s.problem_id, s.member) for s in samples}
    for key in rows:
        torch.testing.assert_close(trees[key], rows[key], atol=1e-5, rtol=0)
    assert (tree_gradient - row_gradient).norm() <= 1e-5 * row_gradient.norm()


def test_the_first_completion_token_is_scored_by_the_last_prompt_token(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    scores, _ = scores_and_gradient(policy, samples, shared=True)
    for sample in samples:
        ids = torch.tensor([[*sample.prompt, *sample.completion]])
        logits = policy.model(input_ids=ids).logits[0].detach() / 0.7
        expected = [
            float(logits[place].log_softmax(-1)[ids[0, place + 1]])
            for place in range(len(sample.prompt) - 1, ids.shape[1] - 1)
        ]
        assert scores[sample.problem_id, sample.member].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("limit", [1, 20, 60])
def test_cutting_trees_and_batches_changes_nothing(
    limit: int, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    _, whole = scores_and_gradient(policy, samples, shared=True)
    _, cut = scores_and_gradient(policy, samples, shared=True, tokens=limit)
    assert (cut - whole).norm() <= 1e-5 * whole.norm()


def test_no_threads_race_for_a_gradient(
    make_policy: MakePolicy, make_samples: MakeSamples, request: pytest.FixtureRequest
) -> None:
    """Bit for bit what torch computes where it is told to let no two threads add to one number."""
    policy, samples = make_policy(), make_samples(problems=8, group=30)
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(2)
    _, free = scores_and_gradient(policy, samples, shared=True)
    torch.use_deterministic_algorithms(True)
    _, told = scores_and_gradient(policy, samples, shared=True)
    assert torch.equal(free, told)


def test_micro_batches_hold_every_sample_once_within_the_budget(make_samples: MakeSamples) -> None:
    samples = make_samples(problems=60, group=12)
    batches = list(pack(plant(samples, 500), 500))
    assert len(batches) > 1
    assert all(len(trees) * max(map(size, trees)) <= 500 for trees in batches)
    places = [(s.problem_id, s.member) for trees in batches for tree in trees for s in tree]
    assert sorted(places) == sorted((s.problem_id, s.member) for s in samples)
    assert batches == list(pack(plant(samples[::-1], 500), 500))


def test_a_model_that_ignores_the_mask_gets_rows_and_says_so(
    make_policy: MakePolicy, make_samples: MakeSamples, caplog: pytest.LogCaptureFixture
) -> None:
    policy, samples = make_policy(), make_samples()
    assert scorer_of(policy, samples, 1.0).shared

    def forget_four_dimensions(
        _module: object, _args: object, kwargs: dict[str, torch.Tensor]
    ) -> tuple[object, object]:
        mask = kwargs["attention_mask"]
        return (), kwargs | {"attention_mask": torch.ones_like(mask[:, 0, 0]).long() if mask.dim() == 4 else mask}

    policy.model.register_forward_pre_hook(forget_four_dimensions, with_kwargs=True)
    with caplog.at_level(logging.WARNING):
        assert not scorer_of(policy, samples, 1.0).shared
    assert "it differs by" in caplog.text


def test_a_model_that_refuses_the_mask_gets_rows_and_says_so(
    make_policy: MakePolicy, make_samples: MakeSamples, caplog: pytest.LogCaptureFixture
) -> None:
    policy, samples = make_policy(), make_samples()

    def two_dimensions_only(_module: object, _args: object, kwargs: dict[str, torch.Tensor]) -> None:
        if kwargs["attention_mask"].dim() != 2:
            raise ValueError("attention_mask must be [batch, sequence]")

    policy.model.register_forward_pre_hook(two_dimensions_only, with_kwargs=True)
    with caplog.at_level(logging.WARNING):
        assert not scorer_of(policy, samples, 1.0).shared
    assert "attention_mask must be [batch, sequence]" in caplog.text


def test_a_sliding_window_shorter_than_the_samples_gets_rows(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    policy.model.config.sliding_window = max(len(s.prompt) + len(s.completion) for s in samples) - 1
    assert not scorer_of(policy, samples, 1.0).shared
    short = [replace(s, completion=s.completion[:1], prompt=s.prompt[:3]) for s in samples]
    assert scorer_of(policy, short, 1.0).shared
