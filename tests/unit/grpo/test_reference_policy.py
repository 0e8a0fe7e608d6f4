"""The reference of every round is the policy that the run started from, whatever its form."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.artifacts import digest_path, read_json, write_jsonl
from tasks.bootstrap.start import attach_lora, load_start
from tasks.errors import GraftError
from tasks.grpo.task import run
from tasks.layout import Layout
from tasks.model.policy import Policy, encode_completion, encode_prompt, load_policy, save_policy
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.params.sections import Lora
from tasks.records import Lineage, RewardedTrajectory, Selected

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")
LORA = Lora(rank=4, alpha=8.0, targets="all-linear")
ADVANTAGES = (1.0, -0.5, -0.5)
TEMPERATURE = 0.8
MakePolicy = Callable[..., Policy]
MakeTrajectory = Callable[..., RewardedTrajectory]


def params(**grpo: Any) -> Params:
    """One step over everything, unless told otherwise."""
    changes = {"epochs": 1, "prompts_per_step": 100, "negative_weight": 1.0, "beta": 0.1, "kl": "k3", "loss": "dapo"}
    changed = {
        "grpo": SHIPPED.grpo.model_copy(update=changes | {"importance": "token", "learning_rate": 0.01} | grpo),
        "search": SHIPPED.search.model_copy(update={"temperature": TEMPERATURE}),
    }
    return restrict(SHIPPED.model_copy(update=changed), ["seed", "policy.max_new_tokens", "search.temperature", "grpo"])


def policy_of(seed: int, whole: bool, make_policy: MakePolicy) -> Policy:
    """Policies of one run: an adapter is another for each seed, the model below it is the same."""
    if whole:
        return make_policy(seed=seed, full=True)
    policy = make_policy()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return policy


def put(layout: Layout, round: int, make_trajectory: MakeTrajectory) -> list[RewardedTrajectory]:
    """What the stages before the update would have written."""
    version = read_json(layout.policy(round - 1) / "lineage.json", Lineage).version
    given = [make_trajectory(name, [1.0, 0.0, 0.0]) for name in ("one", "two")]
    given = [t.model_copy(update={"policy_version": version}) for t in given]
    lines = [
        Selected(
            problem_id=t.problem_id,
            member=member,
            workflow_id=t.workflow_ids[member],
            advantage=advantage,
            influence=None,
            gradient_norm=None,
            selected=True,
        )
        for t in given
        for member, advantage in enumerate(ADVANTAGES)
    ]
    write_jsonl(layout.rewarded(round), given)
    write_jsonl(layout.selection(round), lines)
    return given


def numbers(layout: Layout, round: int) -> dict[str, float]:
    found: dict[str, float] = json.loads(layout.metrics("update", round).read_text())
    return found


def written_out(policy: Policy, trajectory: RewardedTrajectory) -> list[torch.Tensor]:
    """Each completion's log-probabilities."""
    prompt, found = encode_prompt(policy, trajectory.prompt), []
    for code in trajectory.workflow_codes:
        ids = torch.tensor([[*prompt, *encode_completion(policy, code)]])
        with torch.no_grad():
            logprobs = (policy.model(input_ids=ids).logits[0, :-1] / TEMPERATURE).log_softmax(-1)
        found.append(logprobs.gather(-1, ids[0, 1:, None])[len(prompt) - 1 :, 0])
    return found


def divergence(policy: Policy, reference: Policy, trajectories: list[RewardedTrajectory]) -> float:
    """Mean k3 over all completion tokens."""
    difference = torch.cat(
        [
            theirs - ours
            for t in trajectories
            for ours, theirs in zip(written_out(policy, t), written_out(reference, t), strict=True)
        ]
    )
    return float((difference.exp() - difference - 1).mean())


@pytest.mark.parametrize("whole", [False, True])
def test_in_a_later_round_the_kl_is_to_the_policy_that_the_run_started_from(
    whole: bool, tmp_path: Path, make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    layout = Layout(tmp_path)
    for round in range(3):
        save_policy(policy_of(round, whole, make_policy), layout.policy(round), parent=None, round=round)
    given = put(layout, 3, make_trajectory)
    first, middle, last = (load_policy(layout.policy(round)) for round in range(3))
    expected = divergence(last, first, given)
    assert abs(expected - divergence(last, middle, given)) > 0.05 * expected
    run(layout, params(), 3)
    assert numbers(layout, 3)["kl"] == pytest.approx(expected, rel=1e-4)
    assert numbers(layout, 3)["first_ratio"] == pytest.approx(1, abs=1e-6)
    lineage = read_json(layout.policy(3) / "lineage.json", Lineage)
    assert lineage.parent == last.version
    after = load_policy(layout.policy(3))
    moved = dict(last.model.named_parameters())
    for name, parameter in after.model.named_parameters():
        assert torch.equal(parameter, moved[name]) != (whole or "lora_" in name), name


@pytest.mark.parametrize("whole", [False, True])
def test_a_strong_pull_leads_back_to_where_the_run_started(
    whole: bool, tmp_path: Path, make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    layout = Layout(tmp_path)
    for round in range(2):
        save_policy(policy_of(round, whole, make_policy), layout.policy(round), parent=None, round=round)
    given = put(layout, 2, make_trajectory)
    first, before = load_policy(layout.policy(0)), load_policy(layout.policy(1))
    run(layout, params(beta=10.0, epochs=30, learning_rate=0.005), 2)
    assert divergence(load_policy(layout.policy(2)), first, given) < 0.3 * divergence(before, first, given)


@pytest.mark.parametrize("form", [LORA, None])
def test_a_continued_champion_is_its_own_reference_at_the_first_step(
    form: Lora | None, tmp_path: Path, make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    layout = Layout(tmp_path)
    champion = policy_of(5, form is None, make_policy)
    version = save_policy(champion, layout.champion / "policy", parent=None, round=6).version
    policy_params = SHIPPED.policy.model_copy(update={"base": str(layout.champion / "policy"), "lora": form})
    policy, parent = load_start(policy_params)
    assert parent == version
    save_policy(attach_lora(policy, policy_params, seed=0), layout.policy(0), parent, round=0)
    given = put(layout, 1, make_trajectory)
    run(layout, params(), 1)
    assert numbers(layout, 1)["kl"] == pytest.approx(0, abs=1e-9)
    assert numbers(layout, 1)["first_ratio"] == pytest.approx(1, abs=1e-6)
    put(layout, 2, make_trajectory)
    run(layout, params(), 2)
    expected = divergence(load_policy(layout.policy(1)), champion, given)
    assert expected > 1e-6
    assert numbers(layout, 2)["kl"] == pytest.approx(expected, rel=1e-2)


def test_a_second_run_of_full_fine_tuning_writes_the_same_bytes(
    tmp_path: Path, make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    layout = Layout(tmp_path)
    save_policy(make_policy(full=True), layout.policy(0), parent=None, round=0)
    put(layout, 1, make_trajectory)
    digests = set()
    for _ in range(2):
        run(layout, params(epochs=3, prompts_per_step=1), 1)
        digests.add((digest_path(layout.policy(1)), digest_path(layout.metrics("update", 1))))
    assert len(digests) == 1
    assert not (layout.policy(1) / "adapter").exists()


def test_without_beta_nothing_is_scored_against_the_reference(
    tmp_path: Path, make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    layout = Layout(tmp_path)
    for round in range(2):
        save_policy(policy_of(round, False, make_policy), layout.policy(round), parent=None, round=round)
    put(layout, 2, make_trajectory)
    run(layout, params(beta=0.0), 2)
    assert numbers(layout, 2)["kl"] == 0


# --- who wrote the trajectories


def test_a_trajectory_of_another_policy_is_named_with_its_line_and_the_stages_to_run(
    tmp_path: Path, make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    layout = Layout(tmp_path)
    version = save_policy(make_policy(), layout.policy(0), parent=None, round=0).version
    first, second = put(layout, 1, make_trajectory)
    write_jsonl(layout.rewarded(1), [first, second.model_copy(update={"policy_version": "stranger"})])
    text = layout.rewarded(1).read_text()
    layout.rewarded(1).write_text("\n" + text)  # blank lines are skipped, and counted
    remedy = "run again: graft stage search@1 collect@1 reward@1"
    with pytest.raises(GraftError, match=rf"rewarded\.jsonl:3: .*'stranger' wrote .* from '{version}'; {remedy}"):
        run(layout, params(), 1)
    assert not layout.policy(1).exists()


def test_a_policy_that_was_made_again_with_the_same_weights_is_no_stranger(
    tmp_path: Path, make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    layout = Layout(tmp_path)
    save_policy(make_policy(), layout.policy(0), parent=None, round=0)
    put(layout, 1, make_trajectory)
    save_policy(load_policy(layout.policy(0)), layout.policy(0), parent="another", round=0)
    run(layout, params(), 1)
    assert layout.policy(1).exists()
