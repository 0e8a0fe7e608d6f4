"""The audit of rewards: what it answers about rounds whose rewards are known to be right or wrong."""

from statistics import fmean

import pytest

from tasks.records.selection import RewardAudit
from tasks.select.reward_audit import FEWEST, audit_in_steps, audit_rewards
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import changed, with_rewards
from tests.support.rollouts import SAMPLES, invert, simulate_round, with_changed_rewards
from tests.support.tiers import nightly_but_first

TRAIN, VALIDATION = 200, 64


def audit(seed: int, share: float = 0.0, validation: int = VALIDATION) -> RewardAudit:
    train = invert(simulate_round(seed, TRAIN), share, seed)
    return audit_rewards(train, simulate_round(seed, validation, "validation"))


def test_right_rewards_look_right() -> None:
    audits = [audit(seed) for seed in range(8)]
    assert {found.answer for found in audits} <= {"right", "unclear"}
    assert sum(found.answer == "right" for found in audits) >= 7
    assert not any(found.templates or found.terms for found in audits)


@pytest.mark.parametrize(("share", "noticed"), nightly_but_first([(0.3, 8), (0.1, 5)]))
def test_the_share_of_inverted_rewards_is_noticed_and_estimated(share: float, noticed: int) -> None:
    audits = [audit(seed, share) for seed in range(8)]
    assert sum(found.answer == "err" for found in audits) >= noticed
    assert fmean(found.wrong for found in audits) == pytest.approx(share, abs=0.02)
    within = [abs(found.wrong - share) <= 1.96 * found.error for found in audits]
    assert fmean(within) >= 0.85


@pytest.mark.parametrize(("share", "counts"), [(0.0, [64]), (0.3, [64, 64])])
def test_more_validation_is_asked_for_unless_rewards_look_right(share: float, counts: list[int]) -> None:
    train, validation = invert(simulate_round(0, TRAIN), share, 0), simulate_round(0, 128, "validation")
    asked = list[int]()

    def sample(first: int, last: int) -> list[RewardedTrajectory]:
        asked.append(last - first)
        return validation[first:last]

    found, held_out = audit_in_steps(train, sample, 128)
    assert asked == counts  # those of the first step are not sampled again
    assert held_out == validation[: sum(counts)]
    assert found == audit_rewards(train, held_out)
    assert len(audit_in_steps(train, sample, 40)[1]) == 40


def test_few_validation_problems_cannot_tell_and_more_are_asked_for() -> None:
    for count in (1, 4, FEWEST - 1):
        found = audit(0, 0.5, count)
        assert (found.answer, found.problems) == ("unclear", count)
        assert found.needed >= FEWEST
        assert str(found.needed) in found.sentence


def test_equal_rewards_in_validation_cannot_tell() -> None:
    equal = with_changed_rewards(simulate_round(0, VALIDATION, "validation"), lambda *_: 1.0)
    found = audit_rewards(simulate_round(0, TRAIN), equal)
    assert (found.answer, found.problems) == ("unclear", VALIDATION)
    assert found.needed > VALIDATION
    assert audit_rewards([], simulate_round(0, VALIDATION, "validation")).answer == "unclear"


def test_neither_order_nor_scale_of_the_rewards_matters() -> None:
    train, validation = invert(simulate_round(0, TRAIN), 0.3, 0), simulate_round(0, VALIDATION, "validation")
    expected = audit_rewards(train, validation)
    turned = audit_rewards(train[::-1], validation)
    assert turned.answer == "err"
    assert turned.wrong == pytest.approx(expected.wrong)
    scaled = [with_changed_rewards(groups, lambda _g, _p, reward: 2 * reward + 3) for groups in (train, validation)]
    assert audit_rewards(*scaled).wrong == pytest.approx(expected.wrong)


def test_failed_rewards_do_not_count() -> None:
    train, validation = invert(simulate_round(0, TRAIN), 0.3, 0), simulate_round(0, VALIDATION, "validation")
    failed = with_changed_rewards(train, lambda _group, place, reward: None if place == 0 else reward)
    found = audit_rewards(failed, validation)
    assert found.answer == "err"
    assert found.wrong == pytest.approx(0.3, abs=0.08)
    few = with_changed_rewards(validation, lambda g, _p, r: r if g.trajectory.problem_id == "validation-0" else None)
    assert audit_rewards(train, few).answer == "unclear"
    nothing = with_changed_rewards(train, lambda *_: None)
    assert audit_rewards(nothing, validation).answer == "unclear"


def test_what_a_tree_search_wrote_has_no_vote_and_is_not_compared() -> None:
    """It follows what was rewarded before."""
    train, validation = simulate_round(0, TRAIN), simulate_round(0, VALIDATION, "validation")
    half = ["sample"] * (SAMPLES // 2) + ["tree"] * (SAMPLES // 2)
    trees = [changed(group, proposer=half) for group in train]
    wrong = with_changed_rewards(trees, lambda _g, place, reward: 1 - reward if place >= SAMPLES // 2 else reward)
    assert audit_rewards(wrong, validation).contradicted == audit_rewards(trees, validation).contradicted


def test_the_template_whose_rewards_err_comes_first() -> None:
    def change(group: RewardedTrajectory, _place: int, reward: float) -> float:
        return 1 - reward if group.trajectory.problem.template == "t2" else reward

    train = with_changed_rewards(simulate_round(0, TRAIN), change)
    found = audit_rewards(train, simulate_round(0, VALIDATION, "validation"))
    assert found.answer == "err"
    assert found.templates[0].name == "t2"
    assert found.templates[0].excess > 0.5 > max(share.excess for share in found.templates[1:])


def test_the_term_that_errs_is_named() -> None:
    def terms(group: RewardedTrajectory, sign: int) -> RewardedTrajectory:
        rewards = [reward.reward or 0.0 for reward in group.rewards]
        each = [{"correctness": r, "polite": r if sign > 0 else 1 - r} for r in rewards]
        return with_rewards(group.trajectory, [2 * row["correctness"] + row["polite"] for row in each], each)

    train = [terms(group, -1) for group in simulate_round(0, TRAIN)]
    validation = [terms(group, 1) for group in simulate_round(0, VALIDATION, "validation")]
    found = audit_rewards(train, validation)
    shares = {share.name: share.excess for share in found.terms}
    assert shares["polite"] > 0.7
    assert shares["correctness"] == pytest.approx(0, abs=0.05)


def test_the_sentence_names_the_answer() -> None:
    numbers = {"wrong": 0.31, "error": 0.02, "contradicted": 0.33, "expected": 0.04, "problems": 64, "needed": 0}
    said = {answer: RewardAudit(answer=answer, **numbers).sentence for answer in ("right", "err")}
    assert said["right"].startswith("rewards look right: 33.0% of them contradict validation, 4.0% of its own do")
    assert said["err"].startswith("rewards err, about 31% of them (± 4%)")
