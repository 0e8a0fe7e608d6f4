"""The weight of the KL term from step to step: the controller's laws, and an update that follows it."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.model import training_checkpoint as checkpoint
from tasks.model.scoring.scorer import Scorer
from tasks.model.training_checkpoint import Checkpoint, TrainingState
from tasks.update.metrics import Metrics, round_metrics
from tasks.update.step_plan import plan_steps
from tasks.update.update import beta_after_step, train
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.update_params import grpo_params
from tests.support.updates import groups_of, reference_scores, weights_of

BETAS, KLS, TARGETS = st.floats(1e-6, 10), st.floats(-10, 100), st.floats(0.001, 100)
Update = Callable[..., tuple[torch.Tensor, list[Metrics]]]


@given(BETAS, KLS, TARGETS)
def test_a_step_is_the_formula_and_beta_changes_by_2_percent_at_most(beta: float, kl: float, target: float) -> None:
    after = beta_after_step(beta, kl, target)
    assert after == pytest.approx(beta * (1 + 0.1 * sorted([-0.2, kl / target - 1, 0.2])[1]))
    assert 0 < 0.98 * beta * (1 - 1e-9) <= after <= 1.02 * beta * (1 + 1e-9)


@given(BETAS, KLS, KLS, TARGETS)
def test_beta_rises_with_the_kl_and_stays_at_the_target(beta: float, kl: float, more: float, target: float) -> None:
    low, high = sorted([kl, more])
    assert beta_after_step(beta, low, target) <= beta_after_step(beta, high, target)
    assert beta_after_step(beta, target, target) == beta


@given(st.floats(0.01, 1), st.floats(0.05, 1))
def test_a_kl_that_falls_with_beta_comes_to_the_target(beta: float, target: float) -> None:
    for _ in range(500):
        beta = beta_after_step(beta, 0.1 / beta, target)
    assert 0.1 / beta == pytest.approx(target, rel=0.01)


@pytest.fixture
def update(make_policy: MakePolicy, make_samples: MakeSamples) -> Update:
    """update(checkpoint, **changes): the weights after an update of 12 steps, and its rows."""

    def trained(kept: Checkpoint | None = None, **changes: Any) -> tuple[torch.Tensor, list[Metrics]]:
        policy, samples = make_policy(), make_samples()
        params = grpo_params(**{"epochs": 6, "beta": 0.1, "learning_rate": 0.02} | changes)
        scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)
        reference = reference_scores(scorer, samples)
        rows, _ = train(scorer, plan_steps(groups_of(samples), 6, 2, seed=0)[0], params, reference, kept)
        return weights_of(policy), rows

    return trained


def test_each_step_has_the_beta_that_follows_from_the_step_before(update: Update) -> None:
    _, rows = update(kl_target=0.1)
    assert rows[0]["beta"] == 0.1
    assert len({row["beta"] for row in rows}) > 2
    for before, after in pairwise(rows):
        assert after["beta"] == beta_after_step(before["beta"], before["kl_sequence"], 0.1)
    for row in rows[1:]:
        assert row["kl_loss"] == pytest.approx(row["beta"] * row["kl"], rel=1e-4)
    assert round_metrics(rows, 0, [])["beta"] == pytest.approx(sum(row["beta"] for row in rows) / len(rows))


def test_without_a_target_no_row_has_a_beta(update: Update) -> None:
    assert not any("beta" in row for row in update()[1])


def test_a_killed_update_goes_on_with_the_same_beta(
    update: Update, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CutCheckpoint(Checkpoint):
        def keep(self, training: TrainingState) -> None:
            super().keep(training)
            if len(training.rows) == 5:
                raise ZeroDivisionError

    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 0.0)
    path = tmp_path / "update@1" / "name.pt"
    weights, rows = update(kl_target=0.1)
    with pytest.raises(ZeroDivisionError):
        update(CutCheckpoint(path), kl_target=0.1)
    again, numbers = update(Checkpoint(path), kl_target=0.1)
    assert torch.equal(weights, again)
    assert numbers == rows
