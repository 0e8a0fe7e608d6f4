"""The stage `select` with a real policy folder."""

import logging
from typing import Any

import pytest

from tasks.artifacts import read_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.objective.advantages import advantages_of
from tasks.records.selection import Selected
from tasks.select import influence, tracin
from tasks.select.sample_gradients import products
from tests.support.groups import write_round
from tests.support.policies import MakeTrajectory
from tests.support.selection_params import numbers, params, run_selection


def test_every_training_sample_has_a_line_and_positive_influence_is_what_is_kept(layout: Layout) -> None:
    run_selection(layout, params())
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
    assert numbers(layout)["certificate_slope"] == pytest.approx(-1, abs=0.05)
    assert (numbers(layout)["certificate_signs"], numbers(layout)["certificate_steps"]) == (1, 2)
    found = numbers(layout)  # ⟨Σ ∇L_i, ∇L_val⟩ is the sum of the influences, by `dot`
    product = found["gradient_cosine"] * found["train_gradient_norm"] * found["validation_gradient_norm"]
    assert product == pytest.approx(sum(line.influence or 0 for line in lines), rel=1e-3)
    assert abs(found["gradient_cosine"]) < 0.999
    written = [path.read_bytes() for path in (layout.selection(1), layout.metrics("select", 1))]
    run_selection(layout, params())
    assert [path.read_bytes() for path in (layout.selection(1), layout.metrics("select", 1))] == written


def test_influence_that_is_not_what_happens_stops_the_stage_before_it_selects(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracin, "products", lambda scores, direction: -products(scores, direction))
    with pytest.raises(GraftError, match="cannot be trusted to select"):
        run_selection(layout, params())
    assert not layout.selection(1).exists()
    assert not layout.metrics("select", 1).exists()


def test_a_small_budget_of_memory_is_kept_to_and_changes_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, budgets, found = influence.influences, list[int](), list[list[Selected]]()

    def influences(*arguments: Any, **options: Any) -> Any:
        budgets.append(options["estimator"].budget)
        return measured(*arguments, **options)

    monkeypatch.setattr(influence, "influences", influences)
    monkeypatch.setattr(influence, "MEBIBYTE", 10_000)  # one gradient has more: a row at a time
    for budget in (1, 10_000):
        run_selection(layout, params(similarity="local", memory_budget=budget))
        found.append(read_jsonl(layout.selection(1), Selected))
    assert budgets == [10_000, 100_000_000]
    for line, other in zip(*found, strict=True):
        assert line.influence == pytest.approx(other.influence, rel=1e-3, abs=1e-6)


def test_selection_none_keeps_all_that_have_a_signal_and_measures_nothing(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    write_round(layout, [make_trajectory("t", [1.0, 0.0, None]), make_trajectory("solved", [1.0, 1.0])])
    run_selection(layout, params(selection="none"))  # nor does it need validation problems
    lines = read_jsonl(layout.selection(1), Selected)
    assert [line.selected for line in lines] == [True, True, False, False, False]
    assert {(line.influence, line.gradient_norm) for line in lines} == {(None, None)}
    assert not any("influence" in name or "certificate" in name or "norm" in name for name in numbers(layout))


def test_a_failure_that_the_update_will_not_see_is_not_selected(layout: Layout) -> None:
    run_selection(layout, params({"negative_weight": 0.0}, selection="none"))
    lines = read_jsonl(layout.selection(1), Selected)
    assert any(line.advantage < 0 for line in lines)
    assert all(line.selected == (line.advantage > 0) for line in lines)
    run_selection(layout, params({"negative_weight": 0.0}))
    lines = read_jsonl(layout.selection(1), Selected)
    assert all(line.influence == 0 for line in lines if line.advantage < 0)


def test_a_lone_reward_is_compared_with_the_batch_and_that_is_said(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    train = [make_trajectory("t0", [1.0, 0.0]), make_trajectory("t1", [None, 1.0])]
    write_round(layout, [*train, make_trajectory("v", [0.0, 1.0], split="validation")])
    with caplog.at_level(logging.WARNING):
        run_selection(layout, params({"advantages": "none"}))
    assert "groups with a single known reward, which is compared with the whole batch: 1" in caplog.text
    assert [line.advantage for line in read_jsonl(layout.selection(1), Selected)] == pytest.approx(
        [0.5, -0.5, 0, 1 / 3]
    )
    assert numbers(layout)["lone_groups"] == 1


def test_a_truncated_completion_leaves_baseline_and_selection_where_that_is_asked(
    layout: Layout, make_trajectory: MakeTrajectory
) -> None:
    cut = make_trajectory("t", [1.0, 0.0, 0.0], tokens=[[5, 1], [6, 1], [7, 8, 9]])
    write_round(layout, [cut, make_trajectory("v", [0.0, 1.0], split="validation")])
    found = {}
    for rule in ("learn", "leave_out"):
        run_selection(layout, params({"truncated": rule}, selection="none"))
        found[rule] = read_jsonl(layout.selection(1), Selected)
    assert [line.selected for line in found["learn"]] == [True, True, True]
    assert [line.selected for line in found["leave_out"]] == [True, True, False]
    assert [line.advantage for line in found["leave_out"]] == [*advantages_of("group", [[1.0, 0.0]])[0], 0.0]


def test_a_loss_by_completion_changes_what_influence_measures(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    """By completion, a token of a short one weighs more; a constant instead of the tokens scales all alike."""
    uneven = make_trajectory("t", [1.0, 0.0], tokens=[[5, 1], [6, 7, 8, 9, 1]])
    write_round(layout, [uneven, make_trajectory("v", [0.0, 1.0], split="validation")])
    norms = {}
    for loss in ("dapo", "grpo", "dr_grpo"):
        run_selection(layout, params({"loss": loss}))
        norms[loss] = [line.gradient_norm for line in read_jsonl(layout.selection(1), Selected) if line.advantage]
    assert norms["dr_grpo"] == pytest.approx(
        [norm * 7 / (2 * params().policy.max_new_tokens) for norm in norms["dapo"]]
    )
    assert norms["grpo"] == pytest.approx([norms["dapo"][0] * 7 / (2 * 2), norms["dapo"][1] * 7 / (2 * 5)])


def test_validation_without_signal_keeps_all_that_have_one_and_says_so(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    train = make_trajectory("t", [1.0, 0.0, 0.0])
    write_round(layout, [train, make_trajectory("v", [0.0, 0.0], split="validation")])
    with caplog.at_level(logging.WARNING):
        run_selection(layout, params())
    assert "no validation sample has a signal" in caplog.text
    lines = read_jsonl(layout.selection(1), Selected)
    assert [(line.selected, line.influence, line.gradient_norm) for line in lines] == [(True, None, None)] * 3
    assert (numbers(layout)["all_kept"], numbers(layout)["validation_with_signal"]) == (1, 0)


def test_training_without_signal_selects_nothing_and_computes_nothing(
    layout: Layout, make_trajectory: MakeTrajectory, caplog: pytest.LogCaptureFixture
) -> None:
    validation = make_trajectory("v", [0.0, 1.0], split="validation")
    write_round(layout, [make_trajectory("t", [1.0, 1.0]), validation])
    run_selection(layout, params())
    lines = read_jsonl(layout.selection(1), Selected)
    assert not any(line.selected or line.gradient_norm is not None for line in lines)
    assert "nothing is selected: the update of round 1 will change nothing" in caplog.text
    assert numbers(layout)["no_signal_share"] == 1


def test_influence_without_validation_problems_is_an_error(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    write_round(layout, [make_trajectory("t", [1.0, 0.0])])
    with pytest.raises(GraftError, match=r"no validation problems to measure influence with; raise problems"):
        run_selection(layout, params())
    assert not layout.selection(1).exists()
