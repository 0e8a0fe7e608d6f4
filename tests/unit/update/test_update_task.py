"""The stage `update` with a real policy folder."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import digest_path, read_json, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.records.policy import Lineage
from tasks.records.selection import Selected
from tasks.trajectories import RewardedTrajectory
from tasks.update.step_plan import UpdateGroup, selected_groups
from tasks.update.task import run
from tests.support.groups import changed, write_round
from tests.support.policies import MakeTrajectory
from tests.support.selections import selected
from tests.support.stage_params import stage_params
from tests.support.updates import sample_groups


def params(base: str = "scratch") -> Params:
    update = {"epochs": 2, "prompts_per_step": 16, "negative_weight": 1.0}
    return stage_params("update", policy={"base": base}, update=update)


def numbers(layout: Layout) -> dict[str, float]:
    found: dict[str, float] = json.loads(layout.metrics("update", 1).read_text())
    return found


@pytest.fixture
def layout(tmp_path: Path, save_tiny: Callable[..., None], make_trajectory: MakeTrajectory) -> Layout:
    layout = Layout(tmp_path)
    save_tiny(layout.policy(0), fresh=True)
    mixed, solved = make_trajectory("mixed", [1.0, None, 0.0]), make_trajectory("solved", [1.0, 1.0])
    write_round(layout, [mixed, solved, make_trajectory("held-out", [0.0, 1.0], split="validation")])
    write_jsonl(layout.selection(1), [*selected(mixed, [0.7, 0.0, -0.7]), *selected(solved, [0.0, 0.0])])
    return layout


def test_the_round_policy_is_a_child_of_the_one_before_with_another_adapter(layout: Layout) -> None:
    run(layout, params(), 1)
    before = read_json(layout.policy(0) / "lineage.json", Lineage)
    after = read_json(layout.policy(1) / "lineage.json", Lineage)
    assert (after.parent, after.round, after.base) == (before.version, 1, "scratch")
    assert after.version != before.version
    weights = "model.safetensors"
    assert digest_path(layout.policy(0) / weights) == digest_path(layout.policy(1) / weights)  # only the adapter moved
    assert load_policy(layout.policy(1)).version == after.version
    found = numbers(layout)
    assert (found["samples"], found["steps"], found["no_signal_fraction"]) == (2, 2, 0.5)
    assert found["first_ratio"] == pytest.approx(1, abs=1e-6)
    written = [digest_path(p) for p in (layout.policy(1), layout.steps(1), layout.metrics("update", 1))]
    run(layout, params(), 1)
    assert [digest_path(p) for p in (layout.policy(1), layout.steps(1), layout.metrics("update", 1))] == written


def test_a_sign_of_collapse_is_warned_of_when_the_round_is_done(
    layout: Layout, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(layout, params(), 1)
    assert "entropy" not in caplog.text
    monkeypatch.setattr("tasks.statistics.collapse.ENTROPY", 100.0)
    run(layout, params(), 1)
    assert f"round 1: the entropy of a token is {numbers(layout)['entropy']:.3f}" in caplog.text


def test_with_nothing_selected_the_policy_stays_as_it_is(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    mixed, solved = make_trajectory("mixed", [1.0, None, 0.0]), make_trajectory("solved", [1.0, 1.0])
    write_jsonl(layout.selection(1), [*selected(mixed, [0.7, 0.0, -0.7], keep=False), *selected(solved, [0.0, 0.0])])
    run(layout, params(), 1)
    assert digest_path(layout.policy(0) / "adapter") == digest_path(layout.policy(1) / "adapter")
    assert numbers(layout)["skipped_steps"] == 2


def test_validation_is_trained_on_if_the_selection_names_it(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    run(layout, params(), 1)
    assert numbers(layout)["samples"] == 2
    held_out = selected(make_trajectory("held-out", [0.0, 1.0], split="validation"), [-0.7, 0.7])
    with layout.selection(1).open("a") as file:
        file.writelines(line.model_copy(update={"split": "validation"}).model_dump_json() + "\n" for line in held_out)
    run(layout, params(), 1)
    assert numbers(layout)["samples"] == 4


def update_group(
    policy: Policy, trajectory: RewardedTrajectory, lines: Sequence[Selected], **changes: Any
) -> UpdateGroup:
    update = params().update.model_copy(update=changes)
    (group,) = selected_groups(sample_groups(policy, [trajectory], update), lines, TokenWeights(update.loss, 64))
    return group


def test_the_denominator_counts_selected_and_no_signal_samples_but_no_rejected_or_failed_ones(
    policy: Policy, make_trajectory: MakeTrajectory
) -> None:
    trajectory = make_trajectory("p", [1.0, None, 0.0, 0.5])  # selected, failed, rejected, exactly the mean
    lines = selected(trajectory, [1.0, 0.0, -1.0, 0.0])
    lines[2] = lines[2].model_copy(update={"selected": False})
    group = update_group(policy, trajectory, lines)
    assert [s.member for s in group.samples] == [0]
    assert group.denominator == 2 * len(group.samples[0].completion)


@pytest.mark.parametrize(("loss", "expected"), [("dapo", 7), ("grpo", 3), ("dr_grpo", 3 * 64)])
def test_the_denominator_depends_on_the_loss_and_leaves_truncated_completions_out(
    loss: str, expected: int, policy: Policy, make_trajectory: MakeTrajectory
) -> None:
    tokens = {"tokens": [[5, 1], [6, 7, 1], [8, 1], [9, 9]], "logprobs": [[], [], [], []]}
    trajectory = changed(make_trajectory("p", [1.0, 0.5, 0.0, 0.5]), **tokens)
    lines = selected(trajectory, [1.0, 0.0, -1.0, 0.0])
    assert update_group(policy, trajectory, lines, loss=loss, truncated="leave_out").denominator == expected


A = 0.5 / (0.5**0.5 + 1e-4)
"""The advantage of a reward of 1 in a group with one of 0."""


@pytest.mark.parametrize(("negative", "expected"), [(1.0, [A, -A]), (0.25, [A, -A / 4]), (0.0, [A])])
def test_the_negative_weight_scales_failures_alone(
    negative: float, expected: list[float], policy: Policy, make_trajectory: MakeTrajectory
) -> None:
    trajectory = make_trajectory("p", [1.0, 0.0])
    group = update_group(policy, trajectory, selected(trajectory, [A, -A]), negative_weight=negative)
    assert [s.advantage for s in group.samples] == pytest.approx(expected)


def test_a_selection_of_other_trajectories_is_refused(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    write_jsonl(layout.selection(1), selected(make_trajectory("other", [1.0, 0.0]), [0.7, -0.7]))
    with pytest.raises(GraftError, match=r"selection\.jsonl: does not name the samples .* run graft stage select@1"):
        run(layout, params(), 1)
    assert not layout.policy(1).exists()
