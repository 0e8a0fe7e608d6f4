"""The sequential test of whether rewards err: seldom certain where they do, and early where they do not."""

import math
import random
from collections.abc import Callable

import pytest

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.records import Selected
from tasks.select import select_samples
from tasks.select.sequential_test import LEVELS, MISSED, TIMES, is_certain
from tasks.select.task import run_selection
from tests.support.groups import write_round
from tests.support.policies import MakeTrajectory
from tests.support.selection_params import kept, numbers, params

Draw = Callable[[random.Random, int, float], list[float]]


def shares(rng: random.Random, groups: int, low: float, size: int = 4) -> list[float]:
    """Of groups whose samples depend on each other: half of them are low, or none is, together."""
    found = []
    for _ in range(groups):
        together = rng.random() < low
        found.append(sum(together if n % 2 else rng.random() < low for n in range(size)) / size)
    return found


def exactly(rng: random.Random, groups: int, low: float) -> list[float]:
    """Groups without replacement from a round in which exactly this share is low."""
    found = [1.0] * round(low * groups) + [0.0] * (groups - round(low * groups))
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("drawn", [shares, exactly])
@pytest.mark.parametrize("level", LEVELS)
def test_where_rewards_err_an_early_end_is_as_rare_as_promised(drawn: Draw, level: float) -> None:
    rng, rounds = random.Random(0), 2000
    missed = sum(is_certain(drawn(rng, 200, TIMES * level), level) for _ in range(rounds)) / rounds
    assert missed <= MISSED + 2 * math.sqrt(MISSED * (1 - MISSED) / rounds)
    if drawn is shares:
        assert missed > 0


RIGHT, WRONG = [[5, 6, 7, 8], [5, 6, 9, 8]], [[11, 12, 13], [11, 14, 13]]
PROBLEMS = 100


@pytest.mark.parametrize("train", [[1, 1, 0, 0], [0, 0, 1, 1]], ids=["right", "wrong"])
def test_a_round_is_measured_whole_only_where_rewards_err(
    train: list[float], layout: Layout, make_trajectory: MakeTrajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_round(
        layout,
        [make_trajectory(f"t{n}", train, tokens=RIGHT + WRONG) for n in range(PROBLEMS)]
        + [make_trajectory(f"v{n}", [1, 1, 0, 0], "validation", tokens=RIGHT + WRONG) for n in range(6)],
    )
    controlled = params(similarity="local", fdr_control=True)
    with monkeypatch.context() as patched:
        patched.setattr(select_samples, "_is_cached", lambda *_: False)
        run_selection(layout, controlled, 1)
    whole = read_jsonl(layout.selection(1), Selected)
    assert numbers(layout)["measured_share"] == 1
    run_selection(layout, controlled, 1)
    lines, found = read_jsonl(layout.selection(1), Selected), numbers(layout)
    measured = [(line, other) for line, other in zip(lines, whole, strict=True) if line.influence is not None]
    for line, other in measured:
        expected = (other.influence, other.gradient_norm)  # with the means of all groups
        assert (line.influence, line.gradient_norm) == pytest.approx(expected, rel=0.02, abs=1e-4)
    assert len(measured) / len(lines) == found["measured_share"]
    if train[0]:
        assert found["measured_share"] < 1
        assert (found["all_kept"], found["fault_share"], all(kept(layout))) == (1, 0, True)
    else:
        assert found["measured_share"] == 1
        assert found["fault_share"] == pytest.approx(1, abs=0.02)  # problems are alike: some are at the threshold
