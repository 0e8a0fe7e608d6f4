"""The stage `update` with a real policy folder."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, write_jsonl
from tasks.errors import GraftError
from tasks.grpo.groups import selected_groups
from tasks.grpo.step_plan import UpdateGroup
from tasks.grpo.task import run
from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy
from tasks.objective.groups import sample_groups
from tasks.objective.token_weights import TokenWeights
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.params.sections import Grpo
from tasks.records import Lineage, RewardedTrajectory, Selected
from tests.support.selections import selected

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")
MakeTrajectory = Callable[..., RewardedTrajectory]
MakePolicy = Callable[..., Policy]


def params(base: str = "scratch") -> Params:
    policy = SHIPPED.policy.model_copy(update={"base": base})
    keys = ["seed", "policy", "search.temperature", "grpo"]
    grpo = SHIPPED.grpo.model_copy(update={"epochs": 2, "prompts_per_step": 16, "negative_weight": 1.0})
    return restrict(SHIPPED.model_copy(update={"policy": policy, "grpo": grpo}), keys)


@pytest.fixture
def layout(tmp_path: Path, save_tiny: Callable[..., None], make_trajectory: MakeTrajectory) -> Layout:
    layout = Layout(tmp_path)
    save_tiny(layout.policy(0), fresh=True)
    mixed, solved = make_trajectory("mixed", [1.0, None, 0.0]), make_trajectory("solved", [1.0, 1.0])
    write_jsonl(layout.rewarded(1), [mixed, solved, make_trajectory("held-out", [0.0, 1.0], split="validation")])
    write_jsonl(layout.selection(1), [*selected(mixed, [0.7, 0.0, -0.7]), *selected(solved, [0.0, 0.0])])
    return layout


def test_the_round_policy_is_a_child_of_the_one_before_and_has_learned(layout: Layout) -> None:
    run(layout, params(), 1)
    before = read_json(layout.policy(0) / "lineage.json", Lineage)
    after = read_json(layout.policy(1) / "lineage.json", Lineage)
    assert (after.parent, after.round, after.base) == (before.version, 1, "scratch")
    assert after.version != before.version
    weights = "model.safetensors"
    assert digest_path(layout.policy(0) / weights) == digest_path(layout.policy(1) / weights)  # only the adapter moved
    assert load_policy(layout.policy(1)).version == after.version
    numbers = json.loads(layout.metrics("update", 1).read_text())
    assert (numbers["samples"], numbers["steps"], numbers["no_signal_fraction"]) == (2, 2, 0.5)
    assert numbers["first_ratio"] == pytest.approx(1, abs=1e-6)


def test_a_second_run_writes_the_same_bytes(layout: Layout) -> None:
    digests = []
    for _ in range(2):
        run(layout, params(), 1)
        digests.append([digest_path(p) for p in (layout.policy(1), layout.steps(1), layout.metrics("update", 1))])
    assert digests[0] == digests[1]


def test_with_nothing_selected_the_policy_stays_as_it_is(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    mixed, solved = make_trajectory("mixed", [1.0, None, 0.0]), make_trajectory("solved", [1.0, 1.0])
    write_jsonl(layout.selection(1), [*selected(mixed, [0.7, 0.0, -0.7], keep=False), *selected(solved, [0.0, 0.0])])
    run(layout, params(), 1)
    assert digest_path(layout.policy(0) / "adapter") == digest_path(layout.policy(1) / "adapter")
    assert json.loads(layout.metrics("update", 1).read_text())["skipped_steps"] == 2


def test_validation_is_learned_from_where_the_selection_names_it(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    chosen = (layout.selection(1)).read_text()
    run(layout, params(), 1)
    alone = json.loads(layout.metrics("update", 1).read_text())
    held_out = selected(make_trajectory("held-out", [0.0, 1.0], split="validation"), [-0.7, 0.7])
    mixed = [line.model_copy(update={"split": "validation"}) for line in held_out]
    layout.selection(1).write_text(chosen + "".join(line.model_dump_json() + "\n" for line in mixed))
    run(layout, params(), 1)
    numbers = json.loads(layout.metrics("update", 1).read_text())
    assert (numbers["samples"], alone["samples"]) == (4, 2)


def update_group(policy: Policy, trajectory: RewardedTrajectory, lines: Sequence[Selected], grpo: Grpo) -> UpdateGroup:
    (group,) = selected_groups(sample_groups(policy, [trajectory], grpo), lines, TokenWeights(grpo.loss, 64))
    return group


def test_the_denominator_counts_selected_and_no_signal_samples_but_no_rejected_or_failed_ones(
    make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    trajectory = make_trajectory("p", [1.0, None, 0.0, 0.5])  # learned, failed, rejected, exactly the mean
    lines = selected(trajectory, [1.0, 0.0, -1.0, 0.0])
    lines[2] = lines[2].model_copy(update={"selected": False})
    group = update_group(make_policy(), trajectory, lines, params().grpo)
    assert [s.member for s in group.samples] == [0]
    assert group.denominator == 2 * len(group.samples[0].completion)


@pytest.mark.parametrize(("loss", "expected"), [("dapo", 7), ("grpo", 3), ("dr_grpo", 3 * 64)])
def test_the_denominator_is_what_the_loss_says_and_leaves_truncated_completions_out(
    loss: str, expected: int, make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    trajectory = make_trajectory("p", [1.0, 0.5, 0.0, 0.5]).model_copy(
        update={"tokens": [[5, 1], [6, 7, 1], [8, 1], [9, 9]], "logprobs": [[], [], [], []]}
    )
    changed = params().grpo.model_copy(update={"loss": loss, "truncated": "leave_out"})
    group = update_group(make_policy(), trajectory, selected(trajectory, [1.0, 0.0, -1.0, 0.0]), changed)
    assert group.denominator == expected


A = 0.5 / (0.5**0.5 + 1e-4)
"""The advantage of a reward of 1 beside one of 0."""


@pytest.mark.parametrize(("negative", "expected"), [(1.0, [A, -A]), (0.25, [A, -A / 4]), (0.0, [A])])
def test_the_negative_weight_scales_failures_and_leaves_successes(
    negative: float, expected: list[float], make_policy: MakePolicy, make_trajectory: MakeTrajectory
) -> None:
    trajectory = make_trajectory("p", [1.0, 0.0])
    changed = params().grpo.model_copy(update={"negative_weight": negative})
    group = update_group(make_policy(), trajectory, selected(trajectory, [A, -A]), changed)
    assert [s.advantage for s in group.samples] == pytest.approx(expected)


def test_a_selected_sample_weighs_what_its_line_says(make_policy: MakePolicy, make_trajectory: MakeTrajectory) -> None:
    trajectory = make_trajectory("p", [1.0, 0.0])
    lines = [line.model_copy(update={"weight": 2.5}) for line in selected(trajectory, [A, -A])]
    changed = params().grpo.model_copy(update={"negative_weight": 0.5})
    group = update_group(make_policy(), trajectory, lines, changed)
    assert [s.advantage for s in group.samples] == pytest.approx([2.5 * A, -1.25 * A])


def test_a_selection_of_other_trajectories_is_refused(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    write_jsonl(layout.selection(1), selected(make_trajectory("other", [1.0, 0.0]), [0.7, -0.7]))
    with pytest.raises(GraftError, match=r"selection\.jsonl: does not name the samples .* run graft stage select@1"):
        run(layout, params(), 1)
    assert not layout.policy(1).exists()


def test_what_does_not_fit_is_skipped_where_that_is_asked_and_the_selection_knows_it(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    mixed, solved = make_trajectory("mixed", [1.0, None, 0.0, 0.0]), make_trajectory("solved", [1.0, 1.0])
    tokens = [[], [], [300, 1], []]
    write_jsonl(layout.rewarded(1), [mixed.model_copy(update={"tokens": tokens}), solved])
    with pytest.raises(GraftError, match=r"rewarded\.jsonl:1: completion 2 of problem 'mixed' holds token 300"):
        run(layout, params(), 1)
    skipping = params()
    skipping = skipping.model_copy(update={"grpo": skipping.grpo.model_copy(update={"on_invalid_completion": "skip"})})
    with pytest.raises(GraftError, match="does not name the samples"):  # it is of all but the third, by their places
        run(layout, skipping, 1)
    fit = mixed.model_copy(update={"workflow_ids": [mixed.workflow_ids[place] for place in (0, 1, 3)]})
    write_jsonl(layout.selection(1), [*selected(fit, [0.7, 0.0, -0.7]), *selected(solved, [0.0, 0.0])])
    run(layout, skipping, 1)
    numbers = json.loads(layout.metrics("update", 1).read_text())
    assert (numbers["unfit_samples"], numbers["samples"], numbers["reward"]) == (1, 2, 0.75)
