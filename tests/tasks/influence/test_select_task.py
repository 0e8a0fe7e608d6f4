"""The stage `select` with a real policy folder."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.errors import GraftError
from tasks.influence import hearing, task
from tasks.influence.gram import products
from tasks.influence.task import run
from tasks.layout import Layout
from tasks.params import Params, load_params, restrict
from tasks.policy.advantages import group_advantages
from tasks.records import RewardedTrajectory, Selected

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")
MakeTrajectory = Callable[..., RewardedTrajectory]


def params(grpo: dict[str, Any] | None = None, **influence: Any) -> Params:
    changed = SHIPPED.influence.model_copy(update={"similarity": "dot", "control": False, "mix": False} | influence)
    keys = ["policy.max_new_tokens", "search.temperature", "influence"]
    grpo_keys = [
        "negative_weight",
        "advantages",
        "loss",
        "truncated",
        "prompts_per_step",
        "micro_batch_tokens",
        "processes",
        "unfit",
    ]
    keys += [f"grpo.{key}" for key in grpo_keys]
    plain = {"negative_weight": 1.0, "advantages": "group", "loss": "dapo", "truncated": "learn", "unfit": "stop"}
    changes = {"influence": changed, "grpo": SHIPPED.grpo.model_copy(update=plain | (grpo or {}))}
    return restrict(SHIPPED.model_copy(update=changes), keys)


def numbers(layout: Layout) -> dict[str, Any]:
    return dict(json.loads(layout.metrics("select", 1).read_text()))


def test_every_training_sample_has_a_line_and_positive_influence_is_what_is_kept(layout: Layout) -> None:
    run(layout, params(), 1)
    lines = read_jsonl(layout.selection(1), Selected)
    expected = [(f"t{i}", f"t{i}-{m}", m) for i in range(4) for m in range(4)]
    expected += [("solved", f"solved-{m}", m) for m in range(2)]
    assert [(line.problem_id, line.workflow_id, line.member) for line in lines] == expected
    assert all(line.selected == (line.influence is not None and line.influence > 0) for line in lines)
    assert {line.selected for line in lines if line.advantage} == {True, False}
    assert all(bool(line.gradient_norm) == (line.advantage != 0) for line in lines)
    kept = sum(line.selected for line in lines)
    assert numbers(layout)["selected"] == kept
    assert (numbers(layout)["validation_samples"], numbers(layout)["validation_with_signal"]) == (9, 9)
    assert numbers(layout)["all_kept"] == 0


def test_a_second_run_writes_the_same_bytes(layout: Layout) -> None:
    digests = []
    for _ in range(2):
        run(layout, params(), 1)
        digests.append((digest_path(layout.selection(1)), digest_path(layout.metrics("select", 1))))
    assert digests[0] == digests[1]


def test_the_same_batch_has_positive_mean_influence_where_each_sample_votes_for_itself_too(layout: Layout) -> None:
    run(layout, params(validation="same_batch", exclude_self=False), 1)
    assert numbers(layout)["influence_mean"] > 0
    assert numbers(layout)["validation_samples"] == numbers(layout)["samples"] == 18
    with_self = read_jsonl(layout.selection(1), Selected)
    run(layout, params(validation="same_batch", exclude_self=True), 1)
    for line, before in zip(read_jsonl(layout.selection(1), Selected), with_self, strict=True):
        assert before.influence is not None
        assert before.gradient_norm is not None
        assert line.influence == pytest.approx(before.influence - before.gradient_norm**2, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "changes", [{}, {"validation": "same_batch"}, {"validation": "same_batch", "exclude_self": False}]
)
def test_a_selection_comes_with_a_certificate(layout: Layout, changes: dict[str, Any]) -> None:
    run(layout, params(**changes), 1)
    assert numbers(layout)["certificate_slope"] == pytest.approx(-1, abs=0.05)
    assert (numbers(layout)["certificate_signs"], numbers(layout)["certificate_steps"]) == (1, 2)


def test_influence_that_is_not_what_happens_stops_the_stage_before_it_selects(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "products", lambda scores, direction: -products(scores, direction))
    with pytest.raises(GraftError, match="cannot be trusted to select"):
        run(layout, params(), 1)
    assert not layout.selection(1).exists()
    assert not layout.metrics("select", 1).exists()


def test_a_small_budget_of_memory_takes_longer_and_changes_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "MEBIBYTE", 10_000)  # a gradient of this policy has more: a row at a time, two passes
    found = []
    for budget in (1, 10_000):
        run(layout, params(validation="same_batch", memory_budget=budget), 1)
        found.append(read_jsonl(layout.selection(1), Selected))
    for line, other in zip(*found, strict=True):
        assert line.influence == pytest.approx(other.influence, rel=1e-3, abs=1e-6)


def test_selection_none_keeps_all_that_have_a_signal_and_measures_nothing(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    write_jsonl(layout.rewarded(1), [make_trajectory("t", [1.0, 0.0, None]), make_trajectory("solved", [1.0, 1.0])])
    run(layout, params(selection="none"), 1)  # nor does it need validation problems
    lines = read_jsonl(layout.selection(1), Selected)
    assert [line.selected for line in lines] == [True, True, False, False, False]
    assert {(line.influence, line.gradient_norm) for line in lines} == {(None, None)}
    assert not any("influence" in name or "certificate" in name or "norm" in name for name in numbers(layout))


def test_a_failure_that_the_update_will_not_see_is_not_selected(layout: Layout) -> None:
    run(layout, params({"negative_weight": 0.0}, selection="none"), 1)
    lines = read_jsonl(layout.selection(1), Selected)
    assert any(line.advantage < 0 for line in lines)
    assert all(line.selected == (line.advantage > 0) for line in lines)
    run(layout, params({"negative_weight": 0.0}), 1)
    lines = read_jsonl(layout.selection(1), Selected)
    assert all(line.influence == 0 for line in lines if line.advantage < 0)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("group", 0.5 / (stdev([1.0, 0.0]) + 1e-4)),
        ("batch", 0.5 / (stdev([1.0, 0.0, 0.5, 0.5, 0.0, 1.0]) + 1e-4)),
        ("none", 0.5),
        ("leave_one_out", 1.0),
    ],
)
def test_the_advantages_are_those_of_the_rule(
    rule: str, expected: float, layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    train = [make_trajectory("t0", [1.0, 0.0]), make_trajectory("t1", [0.5, 0.5, 0.0, 1.0])]
    write_jsonl(layout.rewarded(1), [*train, make_trajectory("v", [0.0, 1.0, 1.0], split="validation")])
    run(layout, params({"advantages": rule}), 1)
    lines = read_jsonl(layout.selection(1), Selected)
    assert [line.advantage for line in lines[:2]] == pytest.approx([expected, -expected])


def test_a_lone_reward_is_compared_with_the_batch_and_that_is_said(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    train = [make_trajectory("t0", [1.0, 0.0]), make_trajectory("t1", [None, 1.0])]
    write_jsonl(layout.rewarded(1), [*train, make_trajectory("v", [0.0, 1.0], split="validation")])
    with caplog.at_level(logging.WARNING):
        run(layout, params({"advantages": "none"}), 1)
    assert "groups with a single known reward, which is compared with the whole batch: 1" in caplog.text
    assert [line.advantage for line in read_jsonl(layout.selection(1), Selected)] == pytest.approx(
        [0.5, -0.5, 0, 1 / 3]
    )
    assert numbers(layout)["lone_groups"] == 1


def test_a_truncated_completion_leaves_baseline_and_selection_where_that_is_asked(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    cut = make_trajectory("t", [1.0, 0.0, 0.0], tokens=[[5, 1], [6, 1], [7, 8, 9]])
    write_jsonl(layout.rewarded(1), [cut, make_trajectory("v", [0.0, 1.0], split="validation")])
    found = {}
    for rule in ("learn", "leave_out"):
        run(layout, params({"truncated": rule}, selection="none"), 1)
        found[rule] = read_jsonl(layout.selection(1), Selected)
    assert [line.selected for line in found["learn"]] == [True, True, True]
    assert [line.selected for line in found["leave_out"]] == [True, True, False]
    assert [line.advantage for line in found["leave_out"]] == [*group_advantages([1.0, 0.0]), 0.0]


def test_a_loss_by_completion_changes_what_influence_measures(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    """By completion, a token of a short one weighs more; a constant instead of the tokens scales all alike."""
    uneven = make_trajectory("t", [1.0, 0.0], tokens=[[5, 1], [6, 7, 8, 9, 1]])
    write_jsonl(layout.rewarded(1), [uneven, make_trajectory("v", [0.0, 1.0], split="validation")])
    norms = {}
    for loss in ("dapo", "grpo", "dr_grpo"):
        run(layout, params({"loss": loss}), 1)
        norms[loss] = [line.gradient_norm for line in read_jsonl(layout.selection(1), Selected) if line.advantage]
    assert norms["dr_grpo"] == pytest.approx(
        [norm * 7 / (2 * params().policy.max_new_tokens) for norm in norms["dapo"]]
    )
    assert norms["grpo"] == pytest.approx([norms["dapo"][0] * 7 / (2 * 2), norms["dapo"][1] * 7 / (2 * 5)])


def test_validation_without_signal_keeps_all_that_have_one_and_says_so(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    train = make_trajectory("t", [1.0, 0.0, 0.0])
    write_jsonl(layout.rewarded(1), [train, make_trajectory("v", [0.0, 0.0], split="validation")])
    with caplog.at_level(logging.WARNING):
        run(layout, params(), 1)
    assert "no validation sample has a signal" in caplog.text
    assert [line.selected for line in read_jsonl(layout.selection(1), Selected)] == [True, True, True]
    assert (numbers(layout)["all_kept"], numbers(layout)["validation_with_signal"]) == (1, 0)


def test_training_without_signal_selects_nothing(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    validation = make_trajectory("v", [0.0, 1.0], split="validation")
    write_jsonl(layout.rewarded(1), [make_trajectory("t", [1.0, 1.0]), validation])
    run(layout, params(), 1)
    assert not any(line.selected for line in read_jsonl(layout.selection(1), Selected))
    assert numbers(layout)["no_signal_share"] == 1


def test_held_out_without_validation_trajectories_is_an_error(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    write_jsonl(layout.rewarded(1), [make_trajectory("t", [1.0, 0.0])])
    with pytest.raises(GraftError, match=r"no trajectories to measure influence with; set influence\.validation"):
        run(layout, params(), 1)
    assert not layout.selection(1).exists()


def test_what_does_not_fit_stops_or_is_skipped_and_counted(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    broken = make_trajectory("t", [1.0, 0.0, 0.0], tokens=[[5, 1], [6, 1], [7, 8, 1]])
    broken = broken.model_copy(update={"logprobs": [[-1.0, -1.0], [-1.0], [-1.0] * 3]})
    write_jsonl(layout.rewarded(1), [make_trajectory("v", [0.0, 1.0], split="validation"), broken])
    told = r"rewarded\.jsonl:2: completion 1 of problem 't' has 1 log-probabilities for 2"
    with pytest.raises(GraftError, match=told):
        run(layout, params(), 1)
    assert not layout.selection(1).exists()
    run(layout, params({"unfit": "skip"}, selection="none"), 1)
    lines = read_jsonl(layout.selection(1), Selected)
    assert [line.workflow_id for line in lines] == ["t-0", "t-2"]
    assert [line.advantage for line in lines] == group_advantages([1.0, 0.0])  # it left the baseline too
    assert (numbers(layout)["unfit_samples"], numbers(layout)["samples"]) == (1, 2)


def kept(layout: Layout) -> list[bool]:
    return [line.selected for line in read_jsonl(layout.selection(1), Selected)]


def test_every_choice_of_influence_does_something(layout: Layout) -> None:
    run(layout, params(validation="same_batch"), 1)
    plain = read_jsonl(layout.selection(1), Selected)
    for change in (
        {"loss": "seqloss_reward"},
        {"loss": "contrastive"},
        {"loss": "good_only"},
        {"similarity": "cosine"},
        {"similarity": "centred"},
        {"similarity": "local"},
        {"precondition": "adam"},
        {"leave_group_out": True},
        {"exclude_self": False},
        {"top_k": 3},
        {"validation": "held_out"},
    ):
        run(layout, params(**{"validation": "same_batch", **change}), 1)
        changed = read_jsonl(layout.selection(1), Selected)
        assert [line.influence for line in changed] != [line.influence for line in plain], change
        assert [line.gradient_norm for line in changed] == pytest.approx([line.gradient_norm for line in plain])


def test_policy_gradient_is_the_loss_of_the_update(layout: Layout) -> None:
    found = []
    for loss in ("policy_gradient", "seqloss_lastadv"):
        run(layout, params({"negative_weight": 0.5, "loss": "grpo"}, validation="same_batch", loss=loss), 1)
        found.append([line.influence for line in read_jsonl(layout.selection(1), Selected)])
    assert found[0] != found[1]


@pytest.mark.parametrize("rule", ["positive", "top_fraction", "bottom_fraction", "random", "drop_worst_negative"])
def test_every_selection_keeps_its_own(rule: str, layout: Layout) -> None:
    run(layout, params(selection=rule, fraction=0.4, minimum_kept=1), 1)
    lines = [line for line in read_jsonl(layout.selection(1), Selected) if line.advantage]
    chosen = [line.selected for line in lines]
    best = sorted(lines, key=lambda line: -(line.influence or 0))
    count = {"top_fraction": 0.4, "bottom_fraction": 0.4, "random": 0.4}.get(rule)
    if count is not None:
        assert sum(chosen) == -(-4 * len(lines) // 10)
    if rule == "random":
        assert all(line.influence is None for line in lines)
    if rule in ("positive", "top_fraction", "drop_worst_negative"):
        assert best[0].selected
        assert not best[-1].selected
    if rule == "bottom_fraction":
        assert best[-1].selected
        assert not best[0].selected


RIGHT, WRONG = [[5, 6, 7, 8], [5, 6, 9, 8]], [[11, 12, 13], [11, 14, 13]]
"""Completions: of each two that are much alike."""


def control_case(layout: Layout, make_trajectory: MakeTrajectory, train: list[float], **influence: Any) -> Params:
    """Six problems in both splits, the same completions everywhere; rewarded truly in validation."""
    write_jsonl(
        layout.rewarded(1),
        [make_trajectory(f"t{n}", train, tokens=RIGHT + WRONG) for n in range(6)]
        + [make_trajectory(f"v{n}", [1, 1, 0, 0], "validation", tokens=RIGHT + WRONG) for n in range(6)],
    )
    return params(**{"similarity": "local", "control": True, **influence})


@pytest.mark.parametrize("similarity", ["dot", "cosine", "centred", "local"])
def test_what_validation_would_drop_of_its_own_is_no_reason_to_drop(
    similarity: str, layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    run(layout, control_case(layout, make_trajectory, [1, 1, 0, 0], similarity=similarity), 1)
    assert (sum(kept(layout)), numbers(layout)["all_kept"], numbers(layout)["fault_share"]) == (24, 1, 0)
    run(layout, control_case(layout, make_trajectory, [0, 0, 1, 1], similarity=similarity), 1)
    assert (sum(kept(layout)), numbers(layout)["all_kept"]) == (0, 0)
    assert numbers(layout)["fault_share"] == 1


@pytest.mark.parametrize(
    "without", [{"control": False}, {"selection": "top_fraction"}, {"validation": "same_batch"}], ids=str
)
def test_without_control_there_is_none(
    without: dict[str, Any], layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    run(layout, control_case(layout, make_trajectory, [1, 1, 0, 0], **without), 1)
    assert "fault_share" not in numbers(layout)


def test_the_update_may_learn_from_validations_completions_too(layout: Layout) -> None:
    run(layout, params(), 1)
    alone, told = read_jsonl(layout.selection(1), Selected), numbers(layout)
    run(layout, params(mix=True), 1)
    lines = read_jsonl(layout.selection(1), Selected)
    assert lines[: len(alone)] == alone
    trajectories = read_jsonl(layout.rewarded(1), RewardedTrajectory)
    judges = [t for t in trajectories if t.split == "validation"]
    expected = [(t.problem_id, m, name) for t in judges for m, name in enumerate(t.workflow_ids)]
    mixed = lines[len(alone) :]
    assert [(line.problem_id, line.member, line.workflow_id) for line in mixed] == expected
    assert {(line.split, line.influence, line.weight) for line in mixed} == {("validation", None, 1.0)}
    assert all(line.selected == (line.advantage != 0) for line in mixed)
    assert any(line.selected for line in mixed)
    assert numbers(layout) == told | {"mixed": sum(line.selected for line in mixed)}


@pytest.mark.parametrize(
    "other", [{"validation": "same_batch"}, {"selection": "none"}, {"selection": "random"}], ids=str
)
def test_where_nothing_is_held_out_nothing_is_mixed(other: dict[str, Any], layout: Layout) -> None:
    run(layout, params(mix=True, **other), 1)
    assert {line.split for line in read_jsonl(layout.selection(1), Selected)} == {"train"}
    assert numbers(layout)["mixed"] == 0


def test_new_weights_are_in_the_lines(layout: Layout) -> None:
    run(layout, params(selection="reweight"), 1)
    lines = [line for line in read_jsonl(layout.selection(1), Selected) if line.selected]
    assert len({line.weight for line in lines}) > 1
    assert sum(line.weight for line in lines) / len(lines) == pytest.approx(1)
    assert numbers(layout)["effective_sample_size"] < len(lines)


def test_so_many_are_kept_in_any_case(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    train, judge = make_trajectory("t", [1.0, 0.0, 0.4, None]), make_trajectory("v", [1.0, 0.0], split="validation")
    write_jsonl(layout.rewarded(1), [train, judge])
    for minimum in (0, 3):
        run(layout, params(selection="positive", minimum_kept=minimum), 1)
        assert sum(kept(layout)) >= minimum
    assert kept(layout) == [True, True, True, False]  # a sample without signal never


def test_when_nothing_is_selected_that_is_said(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    write_jsonl(
        layout.rewarded(1), [make_trajectory("t", [1.0, 1.0]), make_trajectory("v", [1, 0], split="validation")]
    )
    with caplog.at_level(logging.WARNING):
        run(layout, params(), 1)
    assert "nothing is selected: the update of round 1 will change nothing" in caplog.text


def test_the_best_alone_as_validation_are_warned_about(layout: Layout, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run(layout, params(top_k=2), 1)
    assert "influence.top_k: 2 samples, and only the best, tell little" in caplog.text
    assert "with null all 9 speak" in caplog.text
    assert numbers(layout)["validation_with_signal"] == 2


def test_fixed_trajectories_are_validation_whoever_wrote_them(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    old = [make_trajectory(f"v{i}", [0.0, 1.0, 1.0]).model_copy(update={"policy_version": "old"}) for i in range(3)]
    write_jsonl(layout.root / "old.jsonl", old)
    run(layout, params(), 1)
    held_out = [line.influence for line in read_jsonl(layout.selection(1), Selected)]
    run(layout, params(validation="trajectories", trajectories="old.jsonl"), 1)
    assert [line.influence for line in read_jsonl(layout.selection(1), Selected)] == pytest.approx(held_out)
    write_jsonl(layout.root / "old.jsonl", [old[0].model_copy(update={"logprobs": []})])
    with pytest.raises(GraftError, match=r"old\.jsonl:1: logprobs: 0 entries for 3 workflow codes"):
        run(layout, params(validation="trajectories", trajectories="old.jsonl"), 1)


def test_validation_says_how_long_its_gradient_is(layout: Layout) -> None:
    run(layout, params(validation="same_batch", loss="policy_gradient", exclude_self=False), 1)
    squared = numbers(layout)["validation_gradient_norm"] ** 2
    lines = read_jsonl(layout.selection(1), Selected)
    assert sum(line.influence or 0 for line in lines) == pytest.approx(squared, rel=1e-4)
    assert isinstance(numbers(layout)["validation_loss"], float)
