"""A base in 4 bits: what is learned and sampled over it follows the laws of a whole one, and its folder says so."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from tasks.artifacts import digest_path
from tasks.bootstrap.start import attach_lora, load_start
from tasks.errors import GraftError
from tasks.model.checkpoints.export import export_policy
from tasks.model.checkpoints.version import verify_policy
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.model.sample import Sample
from tasks.model.sampling.sampler import Request, sample
from tasks.model.scoring.scorer import scorer_for
from tasks.objective.recorded_logprobs import sample_key, score_samples
from tasks.objective.sampler_check import check_sampler
from tasks.objective.token_weights import TokenWeights
from tasks.records.policy import Quantization
from tasks.records.search import Engine
from tasks.update.gradient import accumulate_gradient
from tests.support.models import logits, perturb, save_base
from tests.support.policies import WIDE, MakePolicy, MakeSamples
from tests.support.stage_params import policy_params
from tests.support.update_params import grpo_params
from tests.support.updates import TRAINING_LAYOUTS, gradient_of, groups_of, random_logprobs, weights_of
from tests.support.vllm_server import served, vllm_server

pytest.importorskip("bitsandbytes", reason="make nf4 installs bitsandbytes")

TEMPERATURE, TOKENS = 0.7, 2048
BY_TOKEN = TokenWeights("dapo", longest=64)


@pytest.fixture
def base(tmp_path: Path, make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A block has the scale of 64 weights, so modules are that wide."""
    monkeypatch.setitem(WIDE, "hidden_size", 64)
    monkeypatch.setitem(WIDE, "intermediate_size", 128)
    return save_base(make_policy, tmp_path / "base", kind="llama")


def trained(base: Path, quantize: Quantization | None = "nf4") -> Policy:
    """A policy with an adapter, the same one over a base of either type."""
    params = policy_params(base, quantize=quantize)
    return perturb(attach_lora(load_start(params)[0], params, 0))


def drawn(policy: Policy) -> list[Sample]:
    requests = [Request([5, 6, 7 + n % 3, *range(20, 20 + n % 4)], n) for n in range(24)]
    return [
        Sample(f"p{n // 4}", n % 4, tuple(r.prompt), tuple(c.tokens), tuple(c.logprobs), 0.5 - n % 2)
        for n, (r, c) in enumerate(zip(requests, sample(policy, requests, TEMPERATURE, 12, "nf4"), strict=True))
    ]


def test_layouts_give_the_same_gradient_and_the_base_never_changes(base: Path, make_samples: MakeSamples) -> None:
    policy, samples = trained(base), make_samples(problems=7)
    layers = policy.model.get_base_model().model.layers
    frozen = {n: w.clone() for n, w in policy.model.named_parameters() if not w.requires_grad}
    assert sum(w.dtype == torch.uint8 for w in frozen.values()) == 7 * len(layers)
    params = grpo_params(beta=0.05, entropy=0.1)
    scorer = scorer_for(policy, samples, TEMPERATURE)
    assert scorer.layout == "packed"
    gradients, scores = [], []
    for layout in TRAINING_LAYOUTS:
        for checkpointing in (False, True):
            own = replace(scorer, layout=layout, checkpointing=checkpointing)
            policy.model.zero_grad()
            accumulate_gradient(
                own, groups_of(samples), random_logprobs(samples, 1), random_logprobs(samples, 2), params
            )
            gradients.append(gradient_of(policy).clone())
            scores.append(score_samples(own, samples))
    assert torch.equal(gradients[0], gradients[1])
    assert (gradients[0] - gradients[2]).abs().max() < 1e-5 * gradients[0].abs().max()
    for key, row in scores[0].items():
        torch.testing.assert_close(row, scores[2][key], atol=1e-5, rtol=0)
    for name, weight in policy.model.named_parameters():
        assert weight.requires_grad or torch.equal(weight, frozen[name])


def test_a_policy_scores_what_it_sampled_with_the_same_probabilities(base: Path) -> None:
    """Sampling needs no gradient, in which bitsandbytes would round the weights once more."""
    policy = trained(base)
    samples = drawn(policy)
    scores = score_samples(scorer_for(policy, samples, TEMPERATURE), samples)
    for own in samples:
        torch.testing.assert_close(scores[sample_key(own)], torch.tensor(own.behaviour), atol=1e-5, rtol=0)


def test_a_folder_names_base_and_type(tmp_path: Path, base: Path) -> None:
    policy, whole = trained(base), trained(base, quantize=None)
    assert torch.equal(weights_of(policy), weights_of(whole))
    for own, name in ((policy, "policy"), (whole, "whole")):
        own.base_sha256 = digest_path(base)
        save_policy(own, tmp_path / name, parent=None, round=1)
    assert verify_policy(tmp_path / "policy").quantize == "nf4"
    assert "quantize" not in (tmp_path / "whole/lineage.json").read_text()
    assert verify_policy(tmp_path / "policy").version != verify_policy(tmp_path / "whole").version
    assert not (tmp_path / "policy/model.safetensors").exists()
    again = load_policy(tmp_path / "policy", instead_of=load_policy(tmp_path / "policy"))
    assert torch.equal(logits(again.model), logits(policy.model))
    assert (logits(again.model) - logits(whole.model)).abs().max() > 0.01


@pytest.mark.parametrize("form", ["merged", "adapter"])
def test_an_export_has_the_logits_that_were_measured(form: str, tmp_path: Path, base: Path) -> None:
    policy = trained(base)
    save_policy(policy, tmp_path / "policy", parent=None, round=1)
    reported = export_policy(tmp_path / "policy", tmp_path / "out", form, None)  # type: ignore[arg-type]
    if form == "merged":
        found = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    else:
        config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
        assert "quantization_config=config" in (tmp_path / "out/README.md").read_text()
        plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, quantization_config=config).dequantize()
        found = PeftModel.from_pretrained(plain, tmp_path / "out").eval()
    assert max(reported, float((logits(found) - logits(policy.model)).abs().max())) < 1e-4


def test_a_server_of_the_whole_base_is_found_out(tmp_path: Path, base: Path) -> None:
    policy = trained(base)
    save_policy(policy, tmp_path / "policy", parent=None, round=1)
    with vllm_server(base) as server:
        server.adapters["graft-1"] = tmp_path / "policy" / "adapter"
        samples = drawn(served(policy, server, "graft-1"))
    engine = Engine(name="vllm", version="0.32.0", dtype="bfloat16")
    with pytest.raises(GraftError, match="log-probabilities"):
        check_sampler(scorer_for(policy, samples, TEMPERATURE, TOKENS), samples, engine, 2)


def test_an_earlier_policy_keeps_its_type(tmp_path: Path, base: Path) -> None:
    save_policy(trained(base), tmp_path / "policy", parent=None, round=1)
    with pytest.raises(
        GraftError, match=r"policy\.quantize: null, but .* was trained with nf4; set policy.quantize to nf4"
    ):
        trained(tmp_path / "policy", quantize=None)
    assert trained(tmp_path / "policy").quantize == "nf4"
