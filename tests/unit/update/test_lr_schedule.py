"""Laws of the learning rate."""

from itertools import product
from math import cos, pi
from typing import Any, get_args

import pytest
import torch

from tasks.params.fields import Schedule
from tasks.update.update import schedule_of


def rates_of(name: Schedule, warmup_steps: int, steps: int) -> list[float]:
    """The rate of each step, as a share of the highest."""
    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.ones(1)  # of an earlier update
    optimizer = torch.optim.AdamW([weight], lr=0.5)
    schedule, rates = schedule_of(optimizer, name, warmup_steps, steps), []
    assert (weight.item(), len(optimizer.state)) == (1.0, 0)  # setting it up moves no weight
    for _ in range(steps):
        weight.grad = torch.ones(1)
        rates.append(optimizer.param_groups[0]["lr"] / 0.5)
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", get_args(Schedule))
def test_the_rate_rises_then_falls_and_is_never_0(name: Schedule) -> None:
    for steps, warmup in product([1, 3, 4, 5, 50], [0, 1, 4, 10]):
        rates = rates_of(name, warmup, steps)
        assert all(0 < rate <= 1 for rate in rates)
        top = rates.index(max(rates))
        assert rates[: top + 1] == sorted(rates[: top + 1])
        assert rates[top:] == sorted(rates[top:], reverse=True)


@pytest.mark.parametrize(
    ("name", "warmup", "expected"),
    [
        ("linear", 4, [1 / 4, 2 / 4, 3 / 4, 1, 3 / 4, 2 / 4, 1 / 4]),
        ("linear", 0, [7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]),
        ("cosine", 2, [1 / 2, *((1 + cos(pi * s / 6)) / 2 for s in range(6))]),
        ("constant", 4, [1 / 4, 2 / 4, 3 / 4, 1, 1, 1, 1]),
        ("constant", 0, [1.0] * 7),
    ],
)
def test_each_schedule_is_the_documented_one(name: Any, warmup: int, expected: list[float]) -> None:
    assert rates_of(name, warmup, 7) == pytest.approx(expected)
