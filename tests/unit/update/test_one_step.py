"""One step taken apart is the update's own step."""

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs, score_samples
from tasks.update.diagnostics.one_step import (
    constant_rates,
    gradient_norm,
    gradient_of,
    one_step,
    without_advantages,
)
from tasks.update.step_plan import Step, UpdateGroup
from tasks.update.update import train
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.tiers import nightly_but_first
from tests.support.update_params import grpo_params
from tests.support.updates import groups_of, weights_of


def set_up(make_policy: MakePolicy, make_samples: MakeSamples) -> tuple[Policy, Scorer, list[UpdateGroup], Logprobs]:
    """A policy that has left its reference, the adapter switched off."""
    policy, samples = make_policy(), make_samples()
    scorer = scorer_for(policy, samples, 0.7)
    with policy.model.disable_adapter():
        reference = score_samples(scorer, samples)
    return policy, scorer, groups_of(samples), reference


def test_the_step_is_the_one_of_the_update(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """Bit for bit."""
    params = grpo_params(beta=0.3, entropy=0.1, max_grad_norm=0.1)
    ours, scorer, groups, reference = set_up(make_policy, make_samples)
    seen = one_step(scorer, groups, params, reference)
    theirs, scorer, groups, reference = set_up(make_policy, make_samples)
    (row,), _ = train(scorer, [Step(1, groups)], constant_rates(params), reference)

    assert seen.row == row
    assert torch.equal(weights_of(ours), weights_of(theirs))
    assert not torch.equal(weights_of(ours), weights_of(make_policy()))
    assert seen.row["learning_rate"] == params.learning_rate
    assert seen.before.whole == pytest.approx(seen.row["grad_norm"], rel=1e-5)  # before it is clipped


@pytest.mark.parametrize("loss", nightly_but_first(["grpo", "dapo", "dr_grpo", "cispo", "sapo", "reinforce"]))
def test_policy_part_kl_and_entropy_add_up(make_policy: MakePolicy, make_samples: MakeSamples, loss: str) -> None:
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


def test_at_the_reference_the_kl_pulls_only_after_the_step(policy: Policy, samples: list[Sample]) -> None:
    scorer = scorer_for(policy, samples, 0.7)
    seen = one_step(scorer, groups_of(samples), grpo_params(beta=1.0), score_samples(scorer, samples))
    assert seen.before.kl < 1e-5 * seen.before.policy
    assert seen.after.kl > 1e-3 * seen.after.policy


def test_without_an_advantage_no_step_is_taken(policy: Policy, make_policy: MakePolicy) -> None:
    seen = one_step(scorer_for(policy, [], 1.0), [UpdateGroup("p", [], 5, no_signal=True)], grpo_params(), None)
    assert seen.row is None
    assert seen.before.whole == 0.0
    assert torch.equal(weights_of(policy), weights_of(make_policy()))
