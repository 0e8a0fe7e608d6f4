"""One step taken apart is the update's own step."""

from dataclasses import replace

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.groups import SampleGroup
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs, sample_key, score_samples
from tasks.update.diagnostics.one_step import (
    gradient_norm,
    gradient_of,
    logprob_gain,
    one_step,
    without_advantages,
)
from tasks.update.step_plan import Step, UpdateGroup
from tasks.update.update import train
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.tiers import nightly_but_first
from tests.support.update_params import grpo_params
from tests.support.updates import groups_of, reference_scores, weights_of


def set_up(make_policy: MakePolicy, make_samples: MakeSamples) -> tuple[Policy, Scorer, list[UpdateGroup], Logprobs]:
    """A policy that has left its reference, the adapter switched off."""
    policy, samples = make_policy(), make_samples()
    scorer = scorer_for(policy, samples, 0.7)
    reference = reference_scores(scorer, samples)
    return policy, scorer, groups_of(samples), reference


def test_the_step_is_the_one_of_the_update(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """Bit for bit, at the rate that warm-up and schedule give to a first step."""
    params = grpo_params(beta=0.3, entropy=0.1, max_grad_norm=0.1, warmup_steps=4)
    ours, scorer, groups, reference = set_up(make_policy, make_samples)
    seen = one_step(scorer, groups, params, reference, steps=1)
    theirs, scorer, groups, reference = set_up(make_policy, make_samples)
    (row,), _ = train(scorer, [Step(1, groups)], params, reference)

    assert seen.row == row
    assert torch.equal(weights_of(ours), weights_of(theirs))
    assert not torch.equal(weights_of(ours), weights_of(make_policy()))
    assert seen.row["learning_rate"] == params.learning_rate / 4
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
    seen = one_step(scorer, groups_of(samples), grpo_params(beta=1.0), score_samples(scorer, samples), 1)
    assert seen.before.kl < 1e-5 * seen.before.policy
    assert seen.after.kl > 1e-3 * seen.after.policy


def test_without_an_advantage_no_step_is_taken(policy: Policy, make_policy: MakePolicy) -> None:
    seen = one_step(scorer_for(policy, [], 1.0), [UpdateGroup("p", [], 5, no_signal=True)], grpo_params(), None, 1)
    assert seen.row is None
    assert seen.before.whole == 0.0
    assert torch.equal(weights_of(policy), weights_of(make_policy()))


def test_the_gain_is_of_what_earned_more(samples: list[Sample]) -> None:
    """Whatever the sign of the advantages; a sample that is not kept does not count."""
    earned, missed, dropped = (replace(s, advantage=a) for s, a in zip(samples[:3], (2.0, -1.0, 5.0), strict=True))
    before = {sample_key(s): torch.zeros(1) for s in samples}
    after = before | {sample_key(earned): torch.tensor([0.5]), sample_key(missed): torch.tensor([-0.25])}
    after[sample_key(dropped)] = torch.tensor([-9.0])
    for sign in (1, -1):
        own = [replace(s, advantage=sign * s.advantage) for s in (earned, missed, dropped)]
        group = SampleGroup("p", own, [], [], [1.0, 0.0, 1.0], [], [], [])
        assert logprob_gain([group], [True, True, False], before, after) == pytest.approx((2 * 0.5 + 0.25) / 3)
    assert logprob_gain([group], [False] * 3, before, after) == 0.0
