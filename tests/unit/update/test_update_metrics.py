"""Each metric of an update is what its name says."""

import csv
import math
from dataclasses import replace
from io import StringIO

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.update.gradient import TokenSums
from tasks.update.metrics import Metrics, round_metrics, step_metrics, to_csv
from tasks.update.step_plan import UpdateGroup, plan_steps
from tasks.update.update import train
from tests.support.policies import MakeSamples
from tests.support.update_params import grpo_params
from tests.support.updates import groups_of as by_problem
from tests.support.updates import reference_scores


def groups_of(samples: list[Sample]) -> list[UpdateGroup]:
    """Each with a failed and a truncated completion besides its samples; the last one without any signal."""
    more = {"denominator": 20, "rewards": (1.0, None, 0.0, 0.5), "lengths": (3, 4, 5, 8), "truncated": 1}
    groups = [replace(group, **more) for group in by_problem(samples)]
    return [*groups[:3], replace(groups[3], samples=[], rewards=(1.0, None), lengths=(2, 9), no_signal=True)]


@pytest.fixture
def rows(policy: Policy, make_samples: MakeSamples) -> list[Metrics]:
    """Of an update of 6 steps that is far from where its samples come from."""
    samples = [replace(s, behaviour=(-5.5,) * len(s.completion)) for s in make_samples()]
    scorer = Scorer(policy.model, 0, 0.7)
    reference = reference_scores(scorer, samples)
    params = grpo_params(epochs=3, beta=0.3, entropy=0.01, learning_rate=0.03, kl_correction=True)
    return train(scorer, plan_steps(groups_of(samples), 3, 2, seed=0)[0], params, reference)[0]


def test_the_parts_make_up_the_loss_and_the_share_of_the_kl(rows: list[Metrics]) -> None:
    assert [(row["step"], row["epoch"]) for row in rows] == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)]
    for row in rows:
        parts = row["policy_loss"], row["kl_loss"], row["entropy_loss"]
        assert all(parts)
        assert row["loss"] == pytest.approx(sum(parts), abs=1e-6)
        assert row["kl_sequence"] * row["samples"] == pytest.approx(row["kl"] * row["tokens"])
        assert row["kl_share"] == abs(parts[1]) / (abs(parts[0]) + abs(parts[1]))
        assert row["entropy_loss"] < 0 < row["entropy"] < math.log(300)
        assert row["kl"] > 0
        assert row["ratio_max"] > row["ratio"] > 0
        assert 0 < row["clip_ratio/low_mean"] + row["clip_ratio/high_mean"] < 1
        assert min(row["grad_norm"], row["learning_rate"], row["advantage_std"]) > 0
        assert all(math.isfinite(value) for value in row.values())


def test_a_step_counts_all_completions_of_its_problems(samples: list[Sample]) -> None:
    groups = groups_of(samples)[2:]
    (step,), _ = plan_steps(groups, 1, 2, seed=0)
    row = step_metrics(1, step, TokenSums(tokens=10), 1.0, 0.1)
    rewards = torch.tensor([1.0, 0.0, 0.5, 1.0])
    assert row["reward"] == pytest.approx(float(rewards.mean()))
    assert row["reward_std"] == pytest.approx(float(rewards.std()))
    advantages = torch.tensor([s.advantage for s in groups[0].samples], dtype=torch.float64)
    assert row["advantage_std"] == pytest.approx(float(advantages.std()))
    assert row["no_signal_fraction"] == 0.5
    lengths = [row[f"completions/{name}_length"] for name in ("min", "mean", "max")]
    assert lengths == [2, pytest.approx(31 / 6), 9]
    assert row["completions/clipped_ratio"] == pytest.approx(2 / 6)
    assert row["kl_share"] == 0  # of nothing


def test_the_round_has_the_means_of_its_steps(rows: list[Metrics], samples: list[Sample]) -> None:
    groups = groups_of(samples)
    numbers = round_metrics(rows, 2, groups)
    assert (numbers["steps"], numbers["skipped_steps"], numbers["no_signal_fraction"]) == (6, 2, 0.25)
    assert numbers["loss"] == pytest.approx(sum(row["loss"] for row in rows) / 6)
    assert numbers["kl"] == pytest.approx(sum(r["kl"] * r["tokens"] for r in rows) / sum(r["tokens"] for r in rows))
    assert numbers["ratio_max"] == max(row["ratio_max"] for row in rows)
    assert numbers["first_ratio"] == rows[0]["ratio"]
    assert numbers["clip_fraction"] == numbers["clip_ratio/low_mean"] + numbers["clip_ratio/high_mean"]
    assert numbers["tokens"] == sum(len(s.completion) for g in groups for s in g.samples)
    assert (numbers["completions/min_length"], numbers["completions/max_length"]) == (2, 9)


def test_the_table_reads_back_to_the_last_digit_and_a_round_may_have_no_steps(rows: list[Metrics]) -> None:
    numbers = round_metrics([], 3, [])
    assert (numbers["steps"], numbers["skipped_steps"], numbers["reward"]) == (0, 3, 0)
    assert to_csv([]) == "step\n"
    read = [{name: float(value) for name, value in line.items()} for line in csv.DictReader(StringIO(to_csv(rows)))]
    assert read == rows


def test_clips_from_above_and_from_below_are_counted_separately(samples: list[Sample]) -> None:
    (step,), _ = plan_steps(groups_of(samples)[:1], 1, 1, seed=0)
    sums = TokenSums(tokens=8, low=2, high=1)
    sums.add(TokenSums(tokens=2, high=1, ratio_max=3.0))
    sums.add(TokenSums(ratio_max=2.0))
    row = step_metrics(1, step, sums, 1.0, 0.1)
    assert (row["clip_ratio/low_mean"], row["clip_ratio/high_mean"], row["ratio_max"]) == (0.2, 0.2, 3.0)
