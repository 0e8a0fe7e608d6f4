"""One step taken apart is the update's own step."""

from collections.abc import Callable

import pytest
import torch

from tasks.grpo.diagnostics.one_step import (
    constant_learning_rate,
    gradient_norm,
    gradient_of,
    layer_of,
    one_step,
    without_advantages,
)
from tasks.grpo.recorded_logprobs import Logprobs, behaviour_logprobs, score_samples
from tasks.grpo.step_plan import Step, UpdateGroup
from tasks.grpo.update import train
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for
from tests.support.grpo_params import grpo_params

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]

LOSSES = ["dapo", "grpo", "dr_grpo", "cispo", "sapo"]


def groups_of(samples: list[Sample]) -> list[UpdateGroup]:
    names = dict.fromkeys(s.problem_id for s in samples)
    own = {name: [s for s in samples if s.problem_id == name] for name in names}
    return [UpdateGroup(name, own[name], sum(len(s.completion) for s in own[name])) for name in names]


def set_up(make_policy: MakePolicy, make_samples: MakeSamples) -> tuple[Policy, Scorer, list[UpdateGroup], Logprobs]:
    """A policy that has left its reference, the adapter switched off."""
    policy, samples = make_policy(), make_samples()
    scorer = scorer_for(policy, samples, 0.7)
    with policy.model.disable_adapter():
        reference = score_samples(scorer, samples)
    return policy, scorer, groups_of(samples), reference


def weights_of(policy: Policy) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in policy.model.parameters() if p.requires_grad])


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_the_step_is_the_updates_own(make_policy: MakePolicy, make_samples: MakeSamples, beta: float) -> None:
    """The same numbers, to the last bit, and the same weights."""
    params = grpo_params(beta=beta, entropy=0.1, max_grad_norm=0.1)
    ours, scorer, groups, reference = set_up(make_policy, make_samples)
    seen = one_step(scorer, groups, params, reference if beta else None)
    theirs, scorer, groups, reference = set_up(make_policy, make_samples)
    done = train(scorer, [Step(1, groups)], constant_learning_rate(params), reference if beta else None)

    assert seen.row == done.rows[0]
    assert torch.equal(weights_of(ours), weights_of(theirs))
    assert not torch.equal(weights_of(ours), weights_of(make_policy()))
    assert seen.row["learning_rate"] == params.learning_rate
    assert seen.before.whole == pytest.approx(seen.row["grad_norm"], rel=1e-5)  # before it is clipped


@pytest.mark.parametrize("loss", LOSSES)
def test_the_parts_add_up_to_the_whole(make_policy: MakePolicy, make_samples: MakeSamples, loss: str) -> None:
    """Policy part, KL and entropy, each by itself, whatever the loss."""
    params = grpo_params(loss=loss, beta=0.3, entropy=0.1)
    _, scorer, groups, reference = set_up(make_policy, make_samples)
    behaviour = behaviour_logprobs(scorer, [s for g in groups for s in g.samples])
    whole, _ = gradient_of(scorer, groups, behaviour, reference, params)
    silent = without_advantages(groups)
    parts = [
        gradient_of(scorer, groups, behaviour, None, params.model_copy(update={"beta": 0.0, "entropy": 0.0})),
        gradient_of(scorer, silent, behaviour, reference, params.model_copy(update={"entropy": 0.0})),
        gradient_of(scorer, silent, behaviour, None, params.model_copy(update={"beta": 0.0})),
    ]
    for name, gradient in whole.items():
        added = sum((part[name] for part, _ in parts), torch.zeros_like(gradient))
        assert (gradient - added).norm() <= 1e-4 * gradient_norm(whole)
    assert all(gradient_norm(part) > 0 for part, _ in parts)


def test_the_layers_squares_add_up(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    _, scorer, groups, reference = set_up(make_policy, make_samples)
    parts = one_step(scorer, groups, grpo_params(beta=0.1), reference).before
    assert list(parts.layers) == ["layers.0", "layers.1"]
    assert sum(norm**2 for norm in parts.layers.values()) == pytest.approx(parts.whole**2, rel=1e-9)


def test_at_the_reference_the_kl_pulls_only_after_the_step(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy(), make_samples()
    scorer = scorer_for(policy, samples, 0.7)
    seen = one_step(scorer, groups_of(samples), grpo_params(beta=1.0), score_samples(scorer, samples))
    assert seen.before.kl < 1e-5 * seen.before.policy
    assert seen.after.kl > 1e-3 * seen.after.policy


def test_without_an_advantage_no_step_is_taken(make_policy: MakePolicy) -> None:
    policy = make_policy()
    seen = one_step(scorer_for(policy, [], 1.0), [UpdateGroup("p", [], 5, no_signal=True)], grpo_params(), None)
    assert seen.row is None
    assert (seen.before.whole, seen.before.layers) == (0.0, {"layers.0": 0.0, "layers.1": 0.0})
    assert torch.equal(weights_of(policy), weights_of(make_policy()))


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("base_model.model.model.layers.3.self_attn.q_proj.lora_A.default.weight", "layers.3"),
        ("transformer.h.11.mlp.c_fc.bias", "h.11"),
        ("model.layers.2.mlp.experts.7.up_proj.weight", "layers.2"),
        ("model.embed_tokens.weight", "embed_tokens"),
        ("base_model.model.lm_head.lora_B.default.weight", "lm_head"),
    ],
)
def test_a_weight_belongs_to_its_layer(name: str, layer: str) -> None:
    assert layer_of(name) == layer
