"""The weight of the KL term from step to step: the formula, its laws, and what an update makes of it."""

import csv
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifacts import read_json, write_json, write_jsonl
from tasks.layout import Layout
from tasks.model.scoring.scorer import Scorer
from tasks.objective.kl_weight import after_step, first_weight, read_weight
from tasks.objective.recorded_logprobs import score_samples
from tasks.records import KlWeight, Lineage
from tasks.update.metrics import Metrics
from tasks.update.step_plan import plan_steps
from tasks.update.task import run
from tasks.update.update import train
from tests.support.groups import changed, write_rewarded
from tests.support.policies import MakePolicy, MakeSamples, MakeTrajectory
from tests.support.selections import selected
from tests.support.stage_params import stage_params
from tests.support.update_params import grpo_params
from tests.support.updates import groups_of, weights_of

KLS = st.floats(-10, 100)
COMPLETIONS = st.integers(1, 5000)
Learn = Callable[..., tuple[torch.Tensor, list[Metrics]]]


@given(KLS, COMPLETIONS, st.floats(0.001, 10), st.floats(0.01, 10))
def test_a_step_is_the_formula_and_beta_stays_above_0(kl: float, n: int, target: float, beta: float) -> None:
    params = grpo_params(beta=beta, kl_target=target, kl_horizon=1000)
    after = after_step(first_weight(params), kl, n, params)
    error = max(-0.2, min(0.2, (kl - target) / target))
    assert after.beta == pytest.approx(beta * (1 + error * min(n / 1000, 1)))
    assert 0.8 * beta * (1 - 1e-9) <= after.beta <= 1.2 * beta * (1 + 1e-9)


@pytest.mark.parametrize(("kl", "factor"), [(0.1, 1.0), (0.11, 1.05), (0.09, 0.95), (9.0, 1.1), (0.0, 0.9), (-3, 0.9)])
def test_beta_rises_above_the_target_and_falls_below_it(kl: float, factor: float) -> None:
    params = grpo_params(beta=0.5, kl_target=0.1, kl_horizon=100)
    assert after_step(first_weight(params), kl, 50, params).beta == pytest.approx(0.5 * factor)


def test_a_kl_that_falls_with_beta_comes_to_the_target() -> None:
    """From far above and from far below."""
    for beta in (1e-4, 10.0):
        params = grpo_params(beta=beta, kl_target=0.05, kl_horizon=100)
        weight = first_weight(params)
        for _ in range(400):
            weight = after_step(weight, 0.01 / weight.beta, 50, params)
        assert 0.01 / weight.beta == pytest.approx(0.05, rel=1e-3)


@given(st.lists(st.tuples(KLS, COMPLETIONS), min_size=1, max_size=8), st.data())
def test_rounds_go_on_where_the_one_before_has_ended(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[float, int]], data: st.DataObject
) -> None:
    params = grpo_params(beta=0.3, kl_target=0.2)
    whole = weight = first_weight(params)
    for kl, n in steps:
        whole = after_step(whole, kl, n, params)
    cut, path = data.draw(st.integers(0, len(steps))), tmp_path_factory.mktemp("round") / "kl_weight.json"
    for kl, n in steps[:cut]:
        weight = after_step(weight, kl, n, params)
    write_json(path, weight)
    weight = read_weight(path, params)
    for kl, n in steps[cut:]:
        weight = after_step(weight, kl, n, params)
    assert weight == whole


@pytest.fixture
def learn(make_policy: MakePolicy, make_samples: MakeSamples) -> Learn:
    """learn(**changes): the weights after an update of 12 steps against the adapter switched off, and its rows."""

    def trained(kl_weight: KlWeight | None = None, **changes: Any) -> tuple[torch.Tensor, list[Metrics]]:
        policy, samples = make_policy(), make_samples()
        params = grpo_params(**{"epochs": 6, "beta": 0.1, "learning_rate": 0.02} | changes)
        scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)
        with policy.model.disable_adapter():
            reference = score_samples(scorer, samples)
        steps = plan_steps(groups_of(samples), 6, 2, seed=0)[0]
        return weights_of(policy), train(scorer, steps, params, reference, kl_weight=kl_weight).rows

    return trained


def test_each_step_has_the_beta_that_follows_from_the_kl_of_the_step_before(learn: Learn) -> None:
    _, rows = learn(kl_target=0.02, kl_horizon=20)
    for before, after in pairwise(rows):
        error = min(max(before["kl"] / 0.02 - 1, -0.2), 0.2)
        assert after["beta"] == pytest.approx(before["beta"] * (1 + error * min(1, before["samples"] / 20)))
    assert rows[0]["beta"] == 0.1
    assert len({row["beta"] for row in rows}) > 2


def test_the_policy_stays_closer_to_the_reference_where_the_target_is_low(learn: Learn) -> None:
    near, far = (learn(kl_target=target, kl_horizon=1, epochs=6)[1] for target in (0.001, 10.0))
    assert near[-1]["beta"] > 0.1 > far[-1]["beta"]
    assert near[-1]["kl"] < far[-1]["kl"]
    assert near[-1]["kl_loss"] == pytest.approx(near[-1]["beta"] * near[-1]["kl"], rel=1e-4)


def test_without_a_target_nothing_differs(learn: Learn) -> None:
    """Neither the weights nor the names of the metrics."""
    plain, rows = learn()
    constant, constant_rows = learn(kl_horizon=1)
    assert torch.equal(plain, constant)
    assert rows == constant_rows
    assert "beta" not in rows[0]
    assert "beta" in learn(kl_target=0.02)[1][0]


def test_the_stage_takes_up_the_weight_of_the_round_before(
    tmp_path: Path, save_tiny: Callable[..., None], make_trajectory: MakeTrajectory
) -> None:
    layout = Layout(tmp_path)
    save_tiny(layout.policy(0), fresh=True)
    plain = {"epochs": 2, "prompts_per_step": 1, "negative_weight": 1.0}

    def update(round: int, changes: dict[str, Any]) -> float | None:
        """The beta of its first step, None where it does not differ from step to step."""
        version = read_json(layout.policy(round - 1) / "lineage.json", Lineage).version
        trajectories = [make_trajectory(f"p{number}", [1.0, 0.0, 0.5]) for number in range(2)]
        write_rewarded(layout.trajectories(round), [changed(t, policy_version=version) for t in trajectories])
        write_jsonl(layout.selection(round), [line for t in trajectories for line in selected(t, [0.7, -0.7, 0.0])])
        run(layout, stage_params("update", update=plain | changes), round)
        row = next(csv.DictReader(layout.steps(round).read_text().splitlines()))
        return float(row["beta"]) if "beta" in row else None

    assert update(1, {}) is None
    assert not layout.kl_weight(1).exists()
    varying = {"beta": 0.3, "kl_target": 0.01, "kl_horizon": 4}
    assert update(1, varying) == 0.3
    weight = read_json(layout.kl_weight(1), KlWeight)
    assert update(2, varying) == weight.beta != 0.3
    assert read_json(layout.kl_weight(2), KlWeight).beta != weight.beta
