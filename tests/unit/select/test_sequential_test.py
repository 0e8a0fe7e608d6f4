"""The sequential test of whether rewards err: seldom certain where they do, and early where they do not."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.records import Selected
from tasks.select import select_samples
from tasks.select.sequential_test import LEVELS, MISSED, TIMES, is_certain, low_levels
from tasks.select.task import run
from tasks.select.tracin import Measure, centre, influences, measure_products
from tests.support.groups import write_rewarded
from tests.support.influence import BY_TOKEN, scorer_of
from tests.support.policies import MakeSamples, MakeTrajectory
from tests.support.selection_params import kept, numbers, params
from tests.support.validation import advantage_validation

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


@pytest.mark.parametrize("drawn", [shares, exactly])
@pytest.mark.parametrize(("level", "groups"), [(0.05, 300), (0.1, 150), (0.2, 75)])
def test_where_no_reward_errs_the_end_is_early(drawn: Draw, level: float, groups: int) -> None:
    rng, rounds = random.Random(0), 500
    assert sum(is_certain(drawn(rng, groups, level), level) for _ in range(rounds)) / rounds >= 0.9


def test_groups_without_a_low_sample_are_certain_after_a_while() -> None:
    for level in LEVELS:
        least = math.ceil(math.log(MISSED) / math.log((1 - TIMES * level) / (1 - level)))
        assert is_certain([0.0] * least, level)
        assert not is_certain([0.0] * (least - 1), level)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(0, 60), st.sampled_from(LEVELS))
def test_what_was_certain_stays_so(low_shares: list[float], more: int, level: float) -> None:
    if is_certain(low_shares, level):
        assert is_certain(low_shares + [1.0] * more, level)


@given(st.integers(0, 3000))
def test_the_levels_are_p_values_that_there_are(calibration: int) -> None:
    levels = low_levels(calibration)
    assert len(levels) == sum(level * (1 + calibration) >= 1 for level in LEVELS) or calibration < 19
    for level in levels:
        assert level * (1 + calibration) == pytest.approx(round(level * (1 + calibration)))
        assert any(0 <= most - level < 1 / (1 + calibration) for most in LEVELS)


def test_parts_give_what_one_measurement_does(exact: Policy, make_samples: MakeSamples) -> None:
    scorer, samples = scorer_of(exact), make_samples(problems=6, seed=5)
    validation = advantage_validation([replace(s, problem_id="v" + s.problem_id) for s in samples])
    names = sorted({s.problem_id for s in samples})
    samples = sorted(samples, key=lambda s: names.index(s.problem_id))
    for measure in (Measure(similarity="local"), Measure()):
        whole = influences(scorer, samples, BY_TOKEN, validation, measure)
        halves = [[s for s in samples if (s.problem_id in names[:3]) == first] for first in (True, False)]
        parts = centre(
            [measure_products(scorer, part, BY_TOKEN, validation, measure, step_samples=samples) for part in halves],
            measure,
        )
        for one, other in zip(whole.each, parts.each, strict=True):
            assert one.influence == pytest.approx(other.influence, rel=1e-9, abs=1e-14)
            assert one.product == pytest.approx(other.product, rel=1e-9, abs=1e-14)
        for name, gradient in whole.train_gradient.items():
            torch.testing.assert_close(parts.train_gradient[name], gradient, rtol=1e-9, atol=1e-14)


RIGHT, WRONG = [[5, 6, 7, 8], [5, 6, 9, 8]], [[11, 12, 13], [11, 14, 13]]
PROBLEMS = 100


@pytest.mark.parametrize("train", [[1, 1, 0, 0], [0, 0, 1, 1]], ids=["right", "wrong"])
def test_a_round_is_measured_whole_only_where_rewards_err(
    train: list[float], layout: Layout, make_trajectory: MakeTrajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rewarded(
        layout.trajectories(1),
        [make_trajectory(f"t{n}", train, tokens=RIGHT + WRONG) for n in range(PROBLEMS)]
        + [make_trajectory(f"v{n}", [1, 1, 0, 0], "validation", tokens=RIGHT + WRONG) for n in range(6)],
    )
    controlled = params(similarity="local", fdr_control=True)
    with monkeypatch.context() as patched:
        patched.setattr(select_samples, "_is_cached", lambda *_: False)
        run(layout, controlled, 1)
    whole = read_jsonl(layout.selection(1), Selected)
    assert numbers(layout)["measured_share"] == 1
    run(layout, controlled, 1)
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


def test_parts_in_which_no_sample_has_a_signal_are_passed(layout: Layout, make_trajectory: MakeTrajectory) -> None:
    write_rewarded(
        layout.trajectories(1),
        [make_trajectory(f"t{n}", [1, 1, 0, 0] if n == 9 else [0] * 4, tokens=RIGHT + WRONG) for n in range(16)]
        + [make_trajectory(f"v{n}", [1, 1, 0, 0], "validation", tokens=RIGHT + WRONG) for n in range(6)],
    )
    run(layout, params(similarity="local", fdr_control=True), 1)
    assert numbers(layout)["measured_share"] == 1
    assert sum(kept(layout)) == 4
