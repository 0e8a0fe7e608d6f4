"""Alarms of a run: none in a healthy one, one for each planted sign."""

from collections.abc import Mapping

import pytest

from tasks.statistics.alarms import training_alarms

Metrics = dict[str, dict[str, float]]

ROUNDS = 4
HEALTHY: Metrics = {
    **{f"collect@{n}": {"train": 340, "commonest_share": 0.09} for n in range(1, ROUNDS + 1)},
    **{
        f"reward@{n}": {
            "epoch/mean_reward": 0.3 + 0.1 * n,
            "mean_reward_error": 0.006,
            "pass_at_1": 0.2 + 0.1 * n,
            "pass_at_1_low": 0.17 + 0.1 * n,
            "pass_at_1_high": 0.23 + 0.1 * n,
        }
        for n in range(1, ROUNDS + 1)
    },
    **{f"update@{n}": {"entropy": 0.2, "completions/clipped_ratio": 0.01} for n in range(1, ROUNDS + 1)},
}


def of_run(changes: Mapping[str, Mapping[str, float]]) -> Metrics:
    """The healthy run with other metrics of some stages."""
    return HEALTHY | {name: HEALTHY.get(name, {}) | dict(numbers) for name, numbers in changes.items()}


@pytest.mark.parametrize(("changes", "alarm"), [
    ({}, None),
    ({"update@4": {"entropy": 0.03}}, "policy.collapses"),
    ({"update@4": {"completions/clipped_ratio": 0.95}}, "policy.collapses"),
    ({"collect@4": {"commonest_share": 0.8}}, "policy.collapses"),
    ({"reward@4": {"epoch/mean_reward": 0.0, "pass_at_1": 0.0, "pass_at_1_high": 0.02}}, "policy.collapses"),
    ({"update@2": {"entropy": 0.03}}, None),  # it came back
    ({"update@4": {"entropy": 0.03}, "reward@4": {"pass_at_1": 0.95}}, None),  # all the same, and right
    ({"reward@4": {"pass_at_1": 0.1, "pass_at_1_high": 0.13}}, "rewards.mislead"),
    ({f"validate@{n}": {"pass_at_1": p, "pass_at_1_low": p - 0.04, "pass_at_1_high": p + 0.04}
      for n, p in ((2, 0.6), (4, 0.3))}, "rewards.mislead"),
])  # fmt: skip
def test_each_sign_is_one_alarm(changes: Mapping[str, Mapping[str, float]], alarm: str | None) -> None:
    raised = {name: lines for name, lines in training_alarms(of_run(changes), ROUNDS).items() if lines}
    assert [*raised] == [alarm] * bool(alarm)
    assert all(len(lines) == 1 for lines in raised.values())


def test_a_run_without_metrics_raises_none() -> None:
    assert not any(training_alarms({}, ROUNDS).values())
