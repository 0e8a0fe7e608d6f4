"""Weights of 16 bits: right models pass the probes whatever they round, faults are found under the rounding."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch

from tasks.errors import GraftError
from tasks.model.hf_model import float32_weights
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring import scorer as scorer_module
from tasks.model.scoring.scorer import scorer_for, with_constant_prompts
from tasks.objective.recorded_logprobs import behaviour_logprobs, sample_key, score_samples
from tests.support.influence import certificate_of, products_of
from tests.support.plain_scores import unpadded_logprobs
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.validation import advantage_validation


def with_large_logits(make_policy: MakePolicy, kind: str = "qwen2", seed: int = 0) -> Policy:
    """A base in bfloat16 with an adapter in float32, as peft has it, and logits as large as a trained model's."""
    policy = make_policy(kind, "bfloat16", seed)
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_" in name:
                weight.data = weight.data.float()
            if name.endswith(("model.norm.weight", "ln_f.weight")):
                weight.mul_(10)
    return policy


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_a_model_in_float32_is_that_of_its_weights_and_keeps_their_bits(kind: str, make_policy: MakePolicy) -> None:
    policy = with_large_logits(make_policy, kind)
    before = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    wide, ids = deepcopy(policy.model).float(), torch.arange(40).view(2, 20)
    with torch.no_grad():
        expected, rounded = wide(input_ids=ids).logits, policy.model(input_ids=ids).logits
        with float32_weights(policy.model):
            logits = policy.model(input_ids=ids).logits
        assert torch.equal(policy.model(input_ids=ids).logits, rounded)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    assert float(expected.abs().max()) > 16
    assert float((rounded - expected).abs().max()) > 0.03
    assert all(torch.equal(weight, before[name]) for name, weight in policy.model.state_dict().items())


def test_weights_are_restored_where_a_module_fails(make_policy: MakePolicy) -> None:
    model = make_policy(dtype="bfloat16").model
    with pytest.raises(IndexError), float32_weights(model):
        model(input_ids=torch.tensor([[10**6]]))
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("seed", range(2))
def test_a_right_base_is_packed(seed: int, make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = with_large_logits(make_policy, seed=seed), make_samples(seed=seed)
    scorer = scorer_for(policy, samples, 0.7)
    assert scorer.layout == "packed"
    scores, exact = score_samples(scorer, samples), unpadded_logprobs(policy.model, samples[0], 0.7)
    torch.testing.assert_close(scores[sample_key(samples[0])], exact.float(), atol=0.5, rtol=0.05)
    with_constant_prompts(scorer, samples)


def test_a_fault_of_the_size_of_rounding_is_found(
    make_policy: MakePolicy, samples: list[Sample], caplog: pytest.LogCaptureFixture
) -> None:
    """Packed rows whose positions are off by one: too little for a bound that has room for rounding."""
    policy = with_large_logits(make_policy)

    def shift(_module: Any, _args: Any, kwargs: dict[str, Any]) -> Any:
        if "packed_index" in kwargs:
            kwargs = kwargs | {"position_ids": kwargs["position_ids"] * 1.01}
        return (), kwargs

    policy.model.register_forward_pre_hook(shift, with_kwargs=True)
    assert scorer_for(policy, samples, 1.0).layout == "rows"
    assert "as packed rows, the update may be slower: it differs by" in caplog.text


def test_a_model_that_16_bits_are_too_few_for_is_refused(
    make_policy: MakePolicy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = with_large_logits(make_policy)
    score = scorer_module.Scorer.score

    def rounded(scorer: Any, batch: Any) -> Any:
        scored, narrow = score(scorer, batch), policy.model.get_input_embeddings()._forward_pre_hooks
        return scored if narrow else replace(scored, logprobs=scored.logprobs * 2)

    monkeypatch.setattr(scorer_module.Scorer, "score", rounded)
    with pytest.raises(
        GraftError, match=r"cannot be trained in 16 bits, .*% of its .* not those of float32; set policy\.dtype to"
    ):
        scorer_for(policy, samples, 1.0)


def test_ratios_start_at_1(make_policy: MakePolicy, samples: list[Sample]) -> None:
    policy = with_large_logits(make_policy)
    scorer = scorer_for(policy, samples, 0.7)
    recorded = [replace(s, behaviour=tuple(-1.0 for _ in s.completion)) for s in samples]
    denominator, own = behaviour_logprobs(scorer, recorded), score_samples(scorer, samples)
    assert all(torch.equal(denominator[key], row) for key, row in own.items())


def test_the_certificate_takes_steps(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, training = with_large_logits(make_policy, "llama"), make_samples(problems=8, seed=1)
    validation = advantage_validation(make_samples(problems=16, seed=2))
    scorer = scorer_for(policy, [*training, *validation.samples], 1.0)
    products = products_of(scorer, training, validation)
    certificate = certificate_of(scorer, training, products, validation)
    assert (certificate.steps, certificate.sign_agreement) == (2, 1.0)
    assert certificate.slope == pytest.approx(-1, abs=0.05)
    certificate.check()
    with pytest.raises(GraftError, match="cannot be trusted"):
        certificate_of(scorer, training, [-p for p in products], validation).check()
