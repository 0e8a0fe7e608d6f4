"""Which measurements of a step are healthy, and which param a verdict names."""

import random
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.update.diagnostics.health import (
    COLLAPSE,
    DEGRADATION,
    Score,
    StepMeasurements,
    advantage_spread,
    kl_share,
    score_fell,
    verdicts,
)
from tests.support.stage_params import SHIPPED

SANE = StepMeasurements(
    rewards=[[1.0, 0.0, 0.5], [0.0, 1.0, 1.0]], advantages=[[1.0, -1.0, 0.0], [-1.15, 0.58, 0.58]], distinct=[3, 2],
    invalid=0.1, errors=[], faulty=[], served=False, norm=0.4, max_norm=1.0, earlier_norms=[0.3, 2.0], beta=0.01,
    at_reference=False, policy_norm=0.8, kl_norm=0.2, before=Score([True, False], [5, 1], 10),
    after=Score([True, False], [6, 1], 10), stepped=True, diverged=False,
    gain=0.1,
)  # fmt: skip
EQUAL = {"advantages": [[0.0] * 3] * 2, "norm": 0.0, "policy_norm": 0.0, "kl_norm": 0.0, "stepped": False}
ALONE = {"rewards": [[1.0]] * 2, "advantages": [[0.0]] * 2}
EIGHT = {"rewards": [[1.0, 0.0]] * 8, "advantages": [[0.7, -0.7]] * 8}
LOST = {"rewards": [[None] * 3] * 2}
FALLEN = Score([False] * 2, [0, 0], 10)
NAMES = ["advantages", "KL share", "gradient norm", "learning", "score", "distinct completions", "reward errors"]


def verdict(name: str, **changes: Any) -> Any:
    return next(v for v in verdicts(replace(SANE, **changes)) if v.sign == name)


def test_a_sane_step_is_ok_in_every_sign() -> None:
    found = verdicts(SANE)
    assert [v.sign for v in found] == NAMES
    assert {v.level for v in found} == {"ok"}
    assert not any(v.remedy or v.flag for v in found)


@pytest.mark.parametrize(
    ("sign", "level", "flag", "remedy", "changes"),
    [
        ("advantages", "warning", "", "raise update.group_size", {**EQUAL, "rewards": [[0.0] * 3] * 2}),
        ("advantages", "warning", "", "raise search.temperature", {**EQUAL, "rewards": [[1.0] * 3] * 2}),
        ("advantages", "warning", "", COLLAPSE, {**EQUAL, "distinct": [1, 1]}),
        ("advantages", "warning", "", "raise update.group_size", {**EQUAL, "rewards": [[1.0] * 3, [0.0] * 3]}),
        ("advantages", "warning", "", "lower sandbox.memory_mb", {**EQUAL, **LOST, "errors": ["it died"] * 6}),
        ("advantages", "warning", "", "raise policy.max_new_tokens", {**EQUAL, **LOST}),
        ("advantages", "warning", "", "raise update.group_size", {"advantages": [[0.004, -0.004, 0.0]] * 2}),
        ("KL share", "no verdict", "", "", {"beta": 0.0}),
        ("KL share", "no verdict", "", "", {"policy_norm": 0.0, "kl_norm": 0.0}),
        ("KL share", "red flag", "extreme KL share", "lower update.beta", {"kl_norm": 3.3}),
        ("KL share", "warning", "", "lower update.beta", {"kl_norm": 3.1}),
        ("KL share", "warning", "", "lower update.beta", {"kl_norm": 0.35}),
        ("KL share", "ok", "", "", {"kl_norm": 0.34}),
        ("KL share", "ok", "", "", {"kl_norm": 0.09}),
        ("KL share", "ok", "", "", {"kl_norm": 0.08}),
        ("KL share", "warning", "", "raise update.beta", {"kl_norm": 0.08, "after": FALLEN}),
        ("KL share", "no verdict", "", "", {"kl_norm": 0.0, "at_reference": True}),
        ("KL share", "red flag", "extreme KL share", "lower update.beta", {"kl_norm": 3.3, "at_reference": True}),
        (
            "gradient norm",
            "red flag",
            "zero gradients",
            "raise update.group_size",
            {**EQUAL, "rewards": [[0.0] * 3] * 2},
        ),
        ("gradient norm", "red flag", "zero gradients", COLLAPSE, {**EQUAL, "distinct": [1, 1]}),
        ("gradient norm", "red flag", "zero gradients", "raise search.temperature", {"norm": 1e-12}),
        ("gradient norm", "warning", "", "raise update.max_grad_norm", {"norm": 1.1, "earlier_norms": [1.2, 2.0]}),
        ("gradient norm", "ok", "", "", {"norm": 1.1}),
        ("gradient norm", "no verdict", "", "", {"norm": 1.1, "earlier_norms": []}),
        ("gradient norm", "ok", "", "", {"earlier_norms": []}),
        ("learning", "ok", "", "", {"gain": 0.01}),
        ("learning", "red flag", "no learning", "raise update.learning_rate", {"gain": -1e-5}),
        ("learning", "red flag", "wrong direction", "lower update.learning_rate", {"gain": -0.01}),
        ("learning", "red flag", "wrong direction", "lower update.beta", {"gain": -0.01, "kl_norm": 0.8}),
        ("learning", "no verdict", "", "", {"gain": None}),
        ("learning", "no verdict", "", "", {**EQUAL, "gain": 0.0}),
        ("score", "red flag", "performance down", DEGRADATION, {"after": FALLEN}),
        ("score", "warning", "", DEGRADATION, {"after": Score([True, False], [4, 1], 10)}),
        ("score", "warning", "", DEGRADATION, {"after": Score([False, False], [6, 1], 10)}),
        ("score", "ok", "", "", {"after": SANE.before}),
        ("score", "no verdict", "", "", {"before": None}),
        ("score", "no verdict", "", "", {"after": None}),
        ("score", "red flag", "performance down", DEGRADATION, {"after": None, "diverged": True}),
        ("score", "no verdict", "", "", EQUAL),
        ("distinct completions", "red flag", "identical completions", COLLAPSE, {"distinct": [1, 1]}),
        ("distinct completions", "warning", "", COLLAPSE, {"distinct": [1, 3]}),
        ("distinct completions", "warning", "", COLLAPSE, {**EIGHT, "distinct": [1] * 6 + [2] * 2}),
        ("distinct completions", "red flag", "identical completions", COLLAPSE, {**EIGHT, "distinct": [1] * 7 + [2]}),
        ("distinct completions", "no verdict", "", "", {**ALONE, "distinct": [1, 1]}),
        ("reward errors", "red flag", "reward errors", "lower sandbox.memory_mb", {"errors": ["it died"]}),
        (
            "reward errors",
            "red flag",
            "reward errors",
            "fix the reward function polite (rewards:polite)",
            {"errors": ["polite: KeyError: 'x' (rewards.py:3)"], "faulty": ["polite (rewards:polite)"]},
        ),
        (
            "reward errors",
            "red flag",
            "reward errors",
            "start the server of the operators",
            {"errors": ["mute"], "served": True},
        ),
    ],
)
def test_each_sign_has_its_verdict_and_param(sign: str, level: str, flag: str, remedy: str, changes: Any) -> None:
    found = verdict(sign, **changes)
    assert (found.level, found.flag, found.remedy) == (level, flag, remedy)
    for part in remedy.split(" or ") if remedy and not remedy.startswith(("start", "fix")) else []:
        direction, _, name = part.partition(" ")
        assert direction in ("raise", "lower")
        assert isinstance(reduce(getattr, name.split("."), SHIPPED), int | float)


@pytest.mark.parametrize(("invalid", "at_fault"), [(0.0, "problems"), (0.5, "problems"), (0.51, "policy.prompt")])
@pytest.mark.parametrize("sign", ["advantages", "gradient norm"])
def test_the_prompt_is_at_fault_where_most_completions_are_invalid(sign: str, invalid: float, at_fault: str) -> None:
    found = verdict(sign, **EQUAL, rewards=[[0.0] * 3] * 2, invalid=invalid)
    assert at_fault in found.why
    assert ("policy.prompt" in found.remedy) == (at_fault == "policy.prompt")
    assert "policy.prompt" not in verdict(sign, **EQUAL, rewards=[[1.0] * 3] * 2, invalid=invalid).why


def test_a_verdict_explains_a_zero_kl_and_quotes_the_first_error() -> None:
    assert verdict("KL share", beta=0.0, kl_norm=0.0).level == "no verdict"
    assert "KL is off" in verdict("KL share", beta=0.0).value
    assert "0 by construction" in verdict("KL share", at_reference=True, kl_norm=0.0).why
    found = verdict("reward errors", errors=["the sandbox process died", "another"])
    assert "2 of 6" in found.value
    assert "the sandbox process died" in found.why
    assert "another" not in found.why


def test_failed_rewards_are_in_no_spread() -> None:
    signs = replace(SANE, rewards=[[1.0, None, 0.5]] * 2, advantages=[[2.0, 0.0, 1.0]] * 2)
    assert advantage_spread(signs) == pytest.approx((1.0, 2.0, (1 / 3) ** 0.5))


@given(st.floats(1e-6, 1e6), st.floats(0, 1e6))
def test_the_share_is_that_of_the_norms(policy: float, kl: float) -> None:
    share = kl_share(policy, kl)
    assert share is not None
    assert 0 <= share <= 1
    assert share * policy == pytest.approx((1 - share) * kl, rel=1e-6, abs=1e-6)
    assert kl_share(0.0, 0.0) is None


@given(st.lists(st.integers(0, 8), min_size=1, max_size=6))
def test_a_score_that_stays_or_rises_has_not_fallen(right: list[int]) -> None:
    before = Score([False] * len(right), right, 10)
    assert not score_fell(before, before)
    assert not score_fell(before, Score([False] * len(right), [count + 2 for count in right], 10))


def test_a_score_that_loses_all_has_fallen() -> None:
    for samples in (1, 4, 20):
        assert score_fell(*(Score([True] * 4, [count] * 4, samples) for count in (samples, 0)))


@pytest.mark.parametrize("right", [0.05, 0.3, 0.8])
def test_chance_alone_seldom_counts_as_a_fall(right: float) -> None:
    """Two independent measurements of one policy: at most 1 in 40 is beyond two standard errors on one side."""
    rng = random.Random(7)

    def measured() -> Score:
        return Score([True] * 4, [sum(rng.random() < right for _ in range(20)) for _ in range(4)], 20)

    assert sum(score_fell(measured(), measured()) for _ in range(2000)) <= 2000 / 40 + 15
