"""The validation loss: its coefficients by `influence.loss`, and the samples that `influence.sampling` takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy
from tasks.model.scoring.scorer import scorer_for
from tasks.objective.groups import samples_in
from tasks.select.losses import Validation, coefficients_of, contrast, validation_of
from tasks.select.tracin import validation_gradient
from tasks.update.gradient import accumulate_gradient
from tasks.update.step_plan import UpdateGroup
from tests.support.influence import adapter, flat
from tests.support.policies import MakeSamples, MakeTrajectory
from tests.support.selection_params import params
from tests.support.update_params import grpo_params
from tests.support.updates import sample_groups

rewards_of = st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.25, 1.0])), max_size=24)


def test_each_loss_has_its_coefficients() -> None:
    advantages, rewards = [1.5, -0.5, -1.0, 0.0], [1.0, 0.5, 0.0, None]
    assert coefficients_of("seqloss-lastadv", advantages, rewards) == advantages
    assert coefficients_of("seqloss-reward", advantages, rewards) == [1.0, 0.5, 0.0, 0.0]
    assert coefficients_of("contrastive", advantages, rewards) == [1.0, 0.0, -1.0, 0.0]
    assert contrast([1, 1, *[0] * 8]) == pytest.approx([1, 1, *[-2 / 8] * 8])


@given(rewards=rewards_of)
def test_contrast_is_that_of_two_halves(rewards: list[float | None]) -> None:
    """The mean over all ways to break ties: better rewards have no smaller coefficient, and their sum is 0."""
    found = contrast(rewards)
    known = [(reward, c) for reward, c in zip(rewards, found, strict=True) if reward is not None]
    assert all(c == 0 for reward, c in zip(rewards, found, strict=True) if reward is None)
    assert all(-1 <= c <= 1 for c in found)
    assert sum(found) == pytest.approx(0, abs=1e-9)
    assert all(a <= b for (r, a) in known for (s, b) in known if r < s)


def test_its_gradient_is_the_updates_of_the_same_completions(exact: Policy, make_samples: MakeSamples) -> None:
    """By seqloss-lastadv: what training on validation with all advantages would descend, in sign and size."""
    held_out = make_samples(problems=6, seed=2)
    coefficients = coefficients_of("seqloss-lastadv", [s.advantage for s in held_out], [0.5] * len(held_out))
    scorer, validation = scorer_for(exact, held_out, 0.7), Validation(held_out, coefficients)
    found = validation_gradient(scorer, validation)
    step = [UpdateGroup("held out", held_out, validation.tokens)]
    accumulate_gradient(scorer, step, {}, None, grpo_params())
    expected = flat(weight.grad for weight in adapter(exact) if weight.grad is not None)
    assert (flat(found.values()) - expected).norm() <= 1e-9 * expected.norm()


def test_the_highest_and_the_lowest_rewards_are_taken(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    policy = load_policy(layout.policy(0))
    trajectories = [make_trajectory(f"v{n}", [1.0, 0.5, 0.0, None], "validation") for n in range(3)]
    groups = sample_groups(policy, trajectories, grpo_params())
    everything = validation_of(groups, params().influence, 1)
    assert [*everything.samples] == samples_in(groups)
    for sampling, reward in (("highest", 1.0), ("lowest", 0.0)):
        taken = validation_of(groups, params(sampling=sampling, k=2).influence, 1)
        rewards = {(s.problem_id, s.member): r for g in groups for s, r in zip(g.samples, g.rewards, strict=True)}
        assert [rewards[s.problem_id, s.member] for s in taken.samples] == [reward] * 2
        pairs = dict(zip(everything.samples, everything.coefficients, strict=True))
        assert [pairs[s] for s in taken.samples] == [*taken.coefficients]
        assert validation_of(groups[::-1], params(sampling=sampling, k=2).influence, 1).tokens == taken.tokens
