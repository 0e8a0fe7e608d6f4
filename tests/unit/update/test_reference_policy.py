"""The reference of every round is the policy that the run started from, whatever its form."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.artifacts import read_json, write_jsonl
from tasks.bootstrap.start import attach_lora, load_start
from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.model.sample import Sample
from tasks.model.text import encode_completion
from tasks.params.params import Params
from tasks.params.sections import Lora
from tasks.records.policy import Lineage
from tasks.trajectories import RewardedTrajectory
from tasks.update.task import run
from tests.support.groups import changed, write_rewarded
from tests.support.plain_scores import unpadded_logprobs
from tests.support.policies import MakePolicy, MakeTrajectory
from tests.support.selections import selected
from tests.support.stage_params import SHIPPED, stage_params

LORA = Lora(rank=4, alpha=8.0, targets="all-linear")
TEMPERATURE = 0.8
Put = Callable[[int], list[RewardedTrajectory]]


def params(**update: Any) -> Params:
    """One step over all samples, unless changed."""
    changes = {"epochs": 1, "prompts_per_step": 100, "negative_weight": 1.0, "beta": 0.1, "kl": "k3", "loss": "dapo"}
    changes |= {"importance": "token", "learning_rate": 0.01} | update
    return stage_params("update", update=changes, search={"temperature": TEMPERATURE})


def policy_of(seed: int, full: bool, make_policy: MakePolicy) -> Policy:
    """Policies of one run: each seed has its adapter, on one model; or each has all its weights."""
    if full:
        return make_policy(seed=seed, full=True)
    policy = make_policy()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return policy


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def put(layout: Layout, make_trajectory: MakeTrajectory) -> Put:
    """put(round) writes what the stages before the update would have written."""

    def written(round: int) -> list[RewardedTrajectory]:
        version = read_json(layout.policy(round - 1) / "lineage.json", Lineage).version
        given = [make_trajectory(name, [1.0, 0.0, 0.0]) for name in ("one", "two")]
        given = [changed(t, policy_version=version) for t in given]
        write_rewarded(layout.trajectories(round), given)
        write_jsonl(layout.selection(round), [line for t in given for line in selected(t, (1.0, -0.5, -0.5))])
        return given

    return written


def save_rounds(layout: Layout, count: int, full: bool, make_policy: MakePolicy) -> None:
    for round in range(count):
        save_policy(policy_of(round, full, make_policy), layout.policy(round), parent=None, round=round)


def numbers(layout: Layout, round: int) -> dict[str, float]:
    found: dict[str, float] = json.loads(layout.metrics("update", round).read_text())
    return found


def divergence(policy: Policy, reference: Policy, trajectories: list[RewardedTrajectory]) -> float:
    """Mean k3 over all completion tokens."""
    samples = [
        Sample("", 0, tuple(t.prompt_tokens), tuple(encode_completion(policy, member.code)), (), 0.0)
        for t, _ in trajectories
        for member in t.members
    ]
    with torch.no_grad():
        ours, theirs = (
            torch.cat([unpadded_logprobs(each.model, sample, TEMPERATURE) for sample in samples])
            for each in (policy, reference)
        )
    return float(((theirs - ours).exp() - (theirs - ours) - 1).mean())


@pytest.mark.parametrize("full", [False, True])
def test_in_a_later_round_the_kl_is_to_the_policy_that_the_run_started_from(
    full: bool, layout: Layout, put: Put, make_policy: MakePolicy
) -> None:
    save_rounds(layout, 3, full, make_policy)
    given = put(3)
    first, middle, last = (load_policy(layout.policy(round)) for round in range(3))
    expected = divergence(last, first, given)
    assert abs(expected - divergence(last, middle, given)) > 0.05 * expected
    run(layout, params(), 3)
    assert numbers(layout, 3)["kl"] == pytest.approx(expected, rel=1e-4)
    assert numbers(layout, 3)["first_ratio"] == pytest.approx(1, abs=1e-6)
    assert read_json(layout.policy(3) / "lineage.json", Lineage).parent == last.version
    after = load_policy(layout.policy(3))
    moved = dict(last.model.named_parameters())
    for name, parameter in after.model.named_parameters():
        assert torch.equal(parameter, moved[name]) != (full or "lora_" in name), name


@pytest.mark.parametrize("form", [LORA, None])
def test_a_continued_champion_is_its_own_reference_at_the_first_step(
    form: Lora | None, layout: Layout, put: Put, make_policy: MakePolicy
) -> None:
    champion = policy_of(5, form is None, make_policy)
    version = save_policy(champion, layout.champion / "policy", parent=None, round=6).version
    policy_params = SHIPPED.policy.model_copy(update={"base": str(layout.champion / "policy"), "lora": form})
    policy, parent = load_start(policy_params)
    assert parent == version
    save_policy(attach_lora(policy, policy_params, seed=0), layout.policy(0), parent, round=0)
    given = put(1)
    run(layout, params(), 1)
    assert numbers(layout, 1)["kl"] == pytest.approx(0, abs=1e-9)
    assert numbers(layout, 1)["first_ratio"] == pytest.approx(1, abs=1e-6)
    put(2)
    run(layout, params(), 2)
    expected = divergence(load_policy(layout.policy(1)), champion, given)
    assert expected > 1e-6
    assert numbers(layout, 2)["kl"] == pytest.approx(expected, rel=1e-2)
