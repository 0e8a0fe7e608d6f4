"""The targets of a round's tokens: from its rewards, its KL to the reference and the values before the update."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.recorded_logprobs import Logprobs, sample_key, score_samples
from tasks.ppo.critic import with_targets
from tasks.ppo.value_head import write_head
from tasks.round_start import StoredModels, start_round
from tasks.trajectories import RewardedTrajectory
from tests.support.critics import critic_scorer, random_head
from tests.support.groups import changed
from tests.support.policies import MakeTrajectory
from tests.support.ppo_params import ppo_params
from tests.support.stage_params import shipped_params
from tests.support.update_params import grpo_params
from tests.support.updates import sample_groups

TOKENS = [[5, 6, 7, 1], [8, 1], [9, 9, 9]]
"""Of a group: two that end with the end token, and one that was cut."""


def group_of(policy: Policy, trajectory: Any, **update: Any) -> SampleGroup:
    (found,) = sample_groups(policy, [trajectory], grpo_params(**update))
    return found


def zeros(groups: list[SampleGroup]) -> Logprobs:
    return {sample_key(s): torch.zeros(len(s.completion)) for s in samples_in(groups)}


@pytest.mark.usefixtures("plain_advantages")
def test_every_token_gets_the_reward(policy: Policy, make_trajectory: MakeTrajectory) -> None:
    group = group_of(policy, make_trajectory("p", [1.0, 0.5, 0.75], tokens=TOKENS))
    (found,) = with_targets([group], zeros([group]), None, 0.0, ppo_params())
    assert [s.targets.advantages for s in found.samples if s.targets] == [(1.0,) * 4, (0.5,) * 2, (0.75,) * 3]
    assert found.advantages == [s.advantage for s in found.samples] == [1.0, 0.5, 0.75]


@pytest.mark.usefixtures("plain_advantages")
def test_the_advantage_of_a_sample_is_that_of_its_last_token(policy: Policy, make_trajectory: MakeTrajectory) -> None:
    group = group_of(policy, make_trajectory("p", [1.0, 0.0, 0.5], tokens=TOKENS))
    head = random_head(policy)
    values = score_samples(critic_scorer(policy, head), group.samples, "values")
    (found,) = with_targets([group], values, None, 0.0, ppo_params(lam=0.9))
    for sample, reward in zip(found.samples, group.rewards, strict=True):
        assert sample.targets is not None
        assert sample.advantage == sample.targets.advantages[-1]
        assert sample.advantage == pytest.approx(reward - float(values[sample_key(sample)][-1]), abs=1e-6)


@pytest.mark.usefixtures("plain_advantages")
def test_a_failed_reward_and_one_that_is_left_out_have_nothing_to_learn_from(
    policy: Policy, make_trajectory: MakeTrajectory
) -> None:
    group = group_of(policy, make_trajectory("p", [1.0, None, 0.5], tokens=TOKENS), truncated="leave_out")
    (found,) = with_targets([group], zeros([group]), None, 0.0, ppo_params())
    assert [s.has_signal for s in found.samples] == [True, False, False]
    silent = group_of(policy, make_trajectory("p", [0.0, None, 0.0], tokens=TOKENS))
    (found,) = with_targets([silent], zeros([silent]), None, 0.0, ppo_params())
    assert [s.has_signal for s in found.samples] == [True, False, True]  # a value of 0 has to be learned, too


def test_all_tokens_are_whitened_together(policy: Policy, make_trajectory: MakeTrajectory) -> None:
    trajectories = [make_trajectory(f"p{n}", [1.0, 0.2 * n, 0.5], tokens=TOKENS) for n in range(3)]
    groups = sample_groups(policy, trajectories, grpo_params())
    found = with_targets(groups, zeros(groups), None, 0.0, ppo_params())
    tokens = torch.tensor([a for s in samples_in(found) if s.targets for a in s.targets.advantages])
    assert float(tokens.mean()) == pytest.approx(0, abs=1e-6)
    assert float(tokens.var()) == pytest.approx(1, abs=1e-4)
    equal = sample_groups(policy, [make_trajectory("p", [0.5, 0.5], tokens=TOKENS[:2])], grpo_params())
    (flat,) = with_targets(equal, zeros(equal), None, 0.0, ppo_params())
    assert flat.advantages == [0.0, 0.0]


# --- a round from its files


@pytest.fixture
def round_of(
    tmp_path: Path, save_tiny: Callable[..., None], make_trajectory: MakeTrajectory
) -> Callable[..., tuple[Layout, list[RewardedTrajectory]]]:
    """round_of(): a folder with the policies of rounds 0 and 1, and the completions of round 2."""

    def make() -> tuple[Layout, list[RewardedTrajectory]]:
        layout = Layout(tmp_path)
        save_tiny(layout.policy(0), fresh=True)
        save_tiny(layout.policy(1), round=1)
        policy = load_policy(layout.policy(1))
        write_head(layout.value_head(1), random_head(policy))
        recorded = {"logprobs": [[-1.0] * len(tokens) for tokens in TOKENS]}
        trajectories = [changed(make_trajectory(f"p{n}", [1.0, 0.0, 0.5], tokens=TOKENS), **recorded) for n in range(2)]
        return layout, trajectories

    return make


def test_the_kl_of_each_token_is_taken_from_its_reward(round_of: Callable[..., Any]) -> None:
    """With λ = γ = 1 a token's return is the reward minus beta times the KL from it on."""
    layout, rewarded = round_of()
    params = shipped_params(
        algorithm="ppo", ppo=ppo_params().model_dump(), update={"beta": 0.5}, search={"temperature": 0.7}
    )
    found = start_round(StoredModels(layout, params, 2), rewarded, ["train"], params)
    assert found.head.weight.any()
    assert found.reference is not None
    assert found.reference.keys() == {sample_key(s) for s in samples_in(found.groups["train"])}
    for sample, reward in zip(samples_in(found.groups["train"]), [1.0, 0.0, 0.5] * 2, strict=True):
        assert sample.targets is not None
        returns = torch.tensor(sample.targets.returns)
        kl = torch.tensor([(reward - returns[-1]) / 0.5, *((returns[1:] - returns[:-1]) / 0.5).flip(0)]).flip(0)
        d = torch.tensor(sample.behaviour) - found.reference[sample_key(sample)].cpu()
        torch.testing.assert_close(kl, d, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("plain_advantages")
def test_the_round_starts_with_the_zero_head_where_there_is_none_and_with_the_policy_of_the_round_before(
    round_of: Callable[..., Any],
) -> None:
    layout, rewarded = round_of()
    layout.value_head(1).unlink()
    params = shipped_params(algorithm="ppo", ppo=ppo_params().model_dump(), update={"beta": 0.0})
    found = start_round(StoredModels(layout, params, 2), rewarded, ["train"], params)
    assert not found.head.weight.any()
    assert found.reference is None
    assert [s.advantage for s in samples_in(found.groups["train"])] == [1.0, 0.0, 0.5] * 2
