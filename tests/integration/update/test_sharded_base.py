"""Law: several processes, each with a part of the base or with the whole, compute what one process computes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from tasks.model.cpu import limits
from tasks.model.distributed.collectives import (
    all_gather,
    backward,
    gather_parts,
    is_sharded,
    local_part,
    rank,
    world_size,
)
from tasks.model.distributed.sharding import shard_base
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import RowLayout
from tasks.model.scoring.scorer import Scorer, scorer_for, with_constant_prompts
from tasks.objective.recorded_logprobs import Logprobs, score_samples
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Similarity
from tasks.select.certificate import Certificate, certify
from tasks.select.tracin import BUDGET, Estimator, influences
from tasks.update.gradient import TokenSums, accumulate_gradient
from tests.support.critics import critic_scorer, random_head, with_token_targets
from tests.support.models import logits
from tests.support.ppo_params import ppo_params
from tests.support.process_group import in_process, in_processes
from tests.support.tiers import nightly_but_first
from tests.support.update_params import grpo_params
from tests.support.updates import gradient_of, groups_of, random_logprobs
from tests.support.validation import advantage_validation

pytestmark = pytest.mark.slow

BASES = {"tied": "qwen2", "untied": "llama"}
"""Policy folders by their base's embedding and head; each has a second round, `tied-1`."""

CHUNK = 7 * 300 * limits.LOGITS_COPIES * 4
"""Bytes of logits: seven tokens at a time."""

BY_TOKEN = TokenWeights("dapo", longest=64)
LAYOUTS: tuple[RowLayout, ...] = ("packed", "rows", "completions")
Step = tuple[torch.Tensor, float, Logprobs]
Influence = tuple[list[float], Certificate]


def load(folder: Path, base: str, sharded: bool) -> Policy:
    """The second round's policy, on the base that the first one's has been loaded with."""
    reference = load_policy(folder / base, shard=shard_base if sharded else None)
    policy = load_policy(folder / f"{base}-1", instead_of=reference)
    assert is_sharded(policy.model) == sharded
    return policy


def scorer_in(policy: Policy, layout: RowLayout, samples: list[Sample], tokens: int = 2048) -> Scorer:
    scorer = scorer_for(policy, samples, 0.7, tokens)
    assert scorer.layout == "packed"
    return with_constant_prompts(scorer, samples) if layout == "completions" else replace(scorer, layout=layout)


def steps(folder: Path, samples: list[Sample], sharded: bool) -> dict[str, Step]:
    """Gradient, loss and log-probabilities: whole and chunked heads, uneven shares, an empty one, checkpointing."""
    found, bytes_of_logits = {}, limits.LOGITS_BYTES
    params = grpo_params(beta=0.05, entropy=0.1)
    for base in BASES:
        policy = load(folder, base, sharded)
        for layout in LAYOUTS:
            for tokens, most, chunked in ((64, 21, False), (2048, 21, True), (2048, 2, False)):
                own = samples[:most]
                limits.LOGITS_BYTES = CHUNK if chunked else bytes_of_logits
                scorer = replace(scorer_in(policy, layout, own, tokens), checkpointing=chunked)
                policy.model.zero_grad()
                recorded, reference = (
                    {key: row.to(policy.device) for key, row in random_logprobs(own, seed).items()} for seed in (1, 2)
                )
                sums = accumulate_gradient(scorer, groups_of(own), recorded, reference, params)
                scores = {key: row.cpu() for key, row in score_samples(scorer, own).items()}
                found[f"{base} {layout} {tokens} {most}"] = gradient_of(policy).cpu(), sums.loss, scores
    limits.LOGITS_BYTES = bytes_of_logits
    return found


def measured(folder: Path, samples: list[Sample], sharded: bool) -> dict[str, Influence]:
    """Influence and its certificate, with the gradients of all and of few samples in memory."""
    found = {}
    for base in BASES:
        policy = load(folder, base, sharded)
        train, held_out = samples[:15], samples[15:]
        for layout in ("rows", "completions"):
            scorer = scorer_in(policy, layout, samples)
            options: dict[Similarity, int] = {"dot": BUDGET, "local": 300_000}
            for similarity, budget in options.items():
                validation = advantage_validation(held_out)
                each = influences(scorer, train, BY_TOKEN, validation, Estimator(similarity, budget=budget)).samples
                products = [s.product or 0.0 for s in each]
                certificate = certify(scorer, train, products, validation, grpo_params(), 64, seed=0)
                found[f"{base} {layout} {similarity}"] = [s.influence or 0.0 for s in each], certificate
    return found


def saved(folder: Path, base: str, sharded: bool) -> None:
    policy = load(folder, base, sharded)
    if rank() == 0:
        save_policy(policy, folder / f"{base}-saved-{sharded}", parent="tiny", round=2)


def work(folder: Path, samples: list[Sample], sharded: bool) -> tuple[dict[str, Step], dict[str, Influence]]:
    if sharded:
        saved(folder, "tied", sharded)
    return steps(folder, samples, sharded), measured(folder, samples, sharded)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def save_policies(folder: Path, save_tiny: Callable[..., None]) -> None:
    for base, kind in BASES.items():
        save_tiny(folder / base, kind=kind)
        save_tiny(folder / f"{base}-1", kind=kind, seed=1)
        weights = (folder / base / "model.safetensors").read_bytes()
        (folder / f"{base}-1" / "model.safetensors").write_bytes(weights)  # the adapter alone is another


def assert_same_steps(steps: dict[str, Step], alone: dict[str, Step]) -> None:
    assert steps.keys() == alone.keys()
    for name, (gradient, loss, scores) in steps.items():
        gradient_alone, loss_alone, scores_alone = alone[name]
        assert gradient_alone.abs().max() > 0.01
        torch.testing.assert_close(gradient, gradient_alone, atol=1e-5, rtol=0, msg=name)
        assert loss == pytest.approx(loss_alone, rel=1e-5, abs=1e-6)
        for key, row in scores.items():
            torch.testing.assert_close(row, scores_alone[key], atol=1e-5, rtol=0, msg=name)


def test_two_processes_with_a_sharded_base_do_what_one_does(
    tmp_path: Path, save_tiny: Callable[..., None], make_samples: Callable[..., list[Sample]]
) -> None:
    save_policies(tmp_path, save_tiny)
    samples = make_samples(problems=7)
    in_process(saved, tmp_path, "tied", False)
    steps_alone, influence_alone = work(tmp_path, samples, False)
    found = in_processes(2, tmp_path, work, tmp_path, samples, True)
    for steps, influence in found:
        assert_same_steps(steps, steps_alone)
        for name, (values, certificate) in influence.items():
            alone, certificate_alone = influence_alone[name]
            assert values == pytest.approx(alone, abs=1e-5 * max(map(abs, alone))), name
            assert certificate.steps == certificate_alone.steps == 2
            certificate.check()
    for name, (gradient, *_) in found[0][0].items():
        assert torch.equal(gradient, found[1][0][name][0])
    whole, sharded = (tmp_path / f"tied-saved-{sharded}" for sharded in (False, True))
    assert files_of(whole) == files_of(sharded)
    plain = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(sharded), str(sharded / "adapter"))
    assert (logits(plain) - logits(load_policy(tmp_path / "tied-1").model)).abs().max() <= 1e-6


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="it needs two GPUs")
def test_two_gpus_with_a_sharded_base_do_what_one_does(
    tmp_path: Path, save_tiny: Callable[..., None], make_samples: Callable[..., list[Sample]]
) -> None:
    save_policies(tmp_path, save_tiny)
    samples = make_samples(problems=7)
    alone = steps(tmp_path, samples, False)
    for found in in_processes(2, tmp_path, steps, tmp_path, samples, True, gpus=True):
        assert_same_steps(found, alone)


def unlike_batches() -> tuple[list[int], list[torch.Tensor | None]]:
    """Each batch needs other weights, as in a mixture of experts; the last weight nobody needs."""
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.tensor(float(n + 1))) for n in range(6)])
    told = backward(model, [0, 1, 2, 3, 4, 0, 0], lambda n: (model[n] ** 2, lambda: lambda: n))
    return told, [p.grad for p in model]


def gradients_in(
    folder: Path, samples: list[Sample], sharded: bool = False
) -> tuple[list[tuple[torch.Tensor, TokenSums]], Any]:
    """Gradient of the adapter and of a value head, and sums, in both layouts; and that of unlike batches."""
    assert gather_parts(local_part(range(7))) == list(range(7))
    assert all_gather(rank()) == list(range(world_size()))
    policy = load_policy(folder / "adapter", shard=shard_base if sharded else None)
    ppo, found = ppo_params(lam=0.9), []
    layouts: list[RowLayout] = ["packed", "rows"]
    for layout in layouts:
        head = random_head(policy)
        scorer = critic_scorer(policy, head, layout, tokens=64)
        own = with_token_targets(scorer, samples, ppo)
        policy.model.zero_grad()
        sums = accumulate_gradient(scorer, groups_of(own), random_logprobs(own, 1), None, grpo_params(), ppo)
        trained = [*policy.model.parameters(), *head.parameters()]
        found.append((torch.cat([p.grad.flatten() for p in trained if p.grad is not None]), sums))
    return found, unlike_batches()


@pytest.mark.slow
@pytest.mark.parametrize("sharded", nightly_but_first([True, False]))
def test_several_processes_give_the_gradient_of_one_with_a_value_head(
    sharded: bool, tmp_path: Path, save_tiny: Callable[..., None], make_samples: Callable[..., list[Sample]]
) -> None:
    save_tiny(tmp_path / "adapter")
    samples = make_samples(problems=7)
    alone, told_alone = gradients_in(tmp_path, samples)
    for steps, told in in_processes(2, tmp_path, gradients_in, tmp_path, samples, sharded):
        assert told == told_alone
        for (gradient, sums), (gradient_alone, sums_alone) in zip(steps, alone, strict=True):
            assert (gradient - gradient_alone).norm() <= 1e-5 * gradient_alone.norm()
            assert vars(sums) == pytest.approx(vars(sums_alone), rel=1e-5, abs=1e-6)
