"""The benchmark of the audit: which rewards it inverts, and what its figures compare."""

import pytest

from benchmarks.influence_selection.audited_rounds import inverted
from benchmarks.influence_selection.conditions import Condition
from benchmarks.influence_selection.figures import Runs, figures
from benchmarks.influence_selection.variants import ALONE, AUDIT, MAJORITY, NONE, VARIANTS
from tasks.records import Result
from tests.support.groups import make_group, with_rewards

CODES = [f"return {number // 2}" for number in range(2000)]


def test_equal_completions_are_inverted_together_and_as_many_as_asked() -> None:
    group = make_group(CODES, [Result(status="ok", value=1)] * len(CODES))
    right = [float(number % 3 == 0) for number in range(1000)]
    for share in (0, 10, 30):
        (own,) = inverted([with_rewards(group, [right[place // 2] for place in range(len(CODES))])], share, 1, 2)
        first, second = ([record.reward for record in own.rewards[side::2]] for side in (0, 1))
        assert first == second
        wrong = sum(reward != truth for reward, truth in zip(first, right, strict=True))
        assert wrong / len(right) == pytest.approx(share / 100, abs=0.04)


def test_a_failed_reward_stays_failed() -> None:
    group = make_group(CODES[:2], [Result(status="ok", value=1)] * 2)
    (own,) = inverted([with_rewards(group, [None, None])], 100)
    assert [record.reward for record in own.rewards] == [None, None]


def test_the_gap_is_that_to_the_better_of_majority_and_trusted_alone() -> None:
    finals: dict[Condition, tuple[float, ...]] = {
        "flipped": (0.2, 0.5, 0.4),
        "biased": (0.2, 0.3, 0.6),
        "answer_only": (0.3, 0.1, 0.2),
    }
    runs: Runs = {}
    for condition, values in finals.items():
        for name, final in zip((AUDIT, MAJORITY, ALONE), values, strict=True):
            runs[condition, name] = {seed: {"final": final} for seed in (0, 1)}
    numbers, notes = figures(runs, {}, {}, [0, 1])
    gaps = {name: numbers[f"{name}_gap"] for name in finals}
    assert gaps == pytest.approx({"flipped": 0.3, "biased": 0.4, "answer_only": -0.1})
    assert numbers["gap_to_best"] == pytest.approx(0.4)
    assert numbers["flipped_gain"] is None
    assert any(NONE in note and "0, 1" in note for note in notes)


def test_complete_runs_give_the_loss_of_positive_and_the_audits_share_of_seconds() -> None:
    audit = {seed: {"greedy": 0.7, "sampled": 0.6, "seconds": 200.0, "select_seconds": 12.0} for seed in (0, 1)}
    positive = {seed: {"greedy": 0.5 + seed / 10, "sampled": 0.6} for seed in (0, 1)}
    none = {0: {"select_seconds": 2.0}}
    numbers, _ = figures({}, {}, {"audit": audit, "positive": positive, "none": none}, [0, 1])
    assert numbers["positive_clean_loss_greedy"] == pytest.approx(0.15)
    assert numbers["positive_clean_loss_sampled"] == 0
    assert numbers["audit_seconds_share"] == pytest.approx(0.05)
    lacking, notes = figures({}, {}, {"audit": audit}, [0, 1])
    assert lacking["positive_clean_loss_greedy"] is None
    assert any("--complete-runs" in note for note in notes)


def test_the_audits_trusted_completions_are_on_top_of_a_rounds() -> None:
    problems, group = VARIANTS[AUDIT].size
    assert (problems, group) == VARIANTS[NONE].size
    own, other = ({*VARIANTS[name].assignments} for name in (AUDIT, NONE))
    assert {assignment.partition("=")[0] for assignment in own ^ other} == {"influence.selection", "influence.n"}
