"""Laws of the concordance of rewards with influence, and of the answers that follow from it."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tasks.select.concordance import LEVEL, NOTICEABLE, POWER, audit_of, concordance, problems_needed

SIZE = 8
Groups = list[tuple[list[float], list[float | None]]]


def draw(rng: np.random.Generator, groups: int, lift: float, flipped: float = 0.0, shared: float = 0.5) -> Groups:
    """Groups of completions of which half are right in the mean: x is normal, higher for those, and has a part that all
    right completions of a problem share; a share of the rewards is inverted."""
    distance = math.sqrt(2) * normal_quantile(0.5 + lift)
    found: Groups = []
    for _ in range(groups):
        right = rng.random(SIZE) < 0.5
        common = shared * rng.normal()
        x = rng.normal(scale=math.sqrt(1 - shared**2 / 2), size=SIZE) + right * (distance + common)
        rewards = right != (rng.random(SIZE) < flipped)
        found.append((x.tolist(), rewards.astype(float).tolist()))
    return found


def normal_quantile(probability: float) -> float:
    from scipy.stats import norm

    return float(norm.ppf(probability))


def audited(rng: np.random.Generator, train: int, held_out: int, lift: float, flipped: float) -> str:
    return audit_of(
        concordance(draw(rng, train, lift, flipped)), concordance(draw(rng, held_out, lift)), held_out
    ).answer


def test_the_auc_is_that_of_the_pairs_of_one_problem() -> None:
    from scipy.stats import mannwhitneyu

    (x, rewards), *_ = drawn = draw(np.random.default_rng(0), 40, 0.3)
    good, bad = ([a for a, r in zip(x, rewards, strict=True) if r == side] for side in (1.0, 0.0))
    alone = concordance([(x, rewards)])
    assert alone is not None
    assert alone.auc == pytest.approx(mannwhitneyu(good, bad).statistic / (len(good) * len(bad)))
    shifted = concordance([([a + 100 * n for a in x], rewards) for n, (x, rewards) in enumerate(drawn)])
    assert shifted == concordance(drawn)  # no pair is of two problems


def test_failed_rewards_and_groups_of_one_reward_have_no_pair() -> None:
    assert concordance([([1.0, 2.0], [None, 1.0]), ([1.0, 2.0], [0.5, 0.5])]) is None
    found = concordance([([1.0, 2.0, 9.0], [0.0, 1.0, None]), ([1.0, 2.0], [0.5, 0.5])])
    assert found is not None
    assert (found.auc, found.groups) == (1.0, 1)


def test_the_standard_error_is_that_of_repeated_draws() -> None:
    rng = np.random.default_rng(0)
    found = [concordance(draw(rng, 60, 0.25)) for _ in range(300)]
    aucs, errors = ([getattr(one, name) for one in found] for name in ("auc", "error"))
    assert np.mean(errors) == pytest.approx(np.std(aucs), rel=0.15)


@pytest.mark.parametrize("flipped", [0.1, 0.3])
@pytest.mark.parametrize("rare", [0.5, 0.2])
def test_the_fault_share_is_that_of_wrong_sides_of_pairs(flipped: float, rare: float) -> None:
    """Counted where it is known which rewards are inverted: `rare` is the share of right completions."""
    rng, groups = np.random.default_rng(1), 8000
    right = rng.random((groups, SIZE)) < rare
    claimed = right != (rng.random((groups, SIZE)) < flipped)
    x = (rng.normal(size=(groups, SIZE)) + right).tolist()
    audit = audit_of(*(concordance(zip(x, y.astype(float).tolist(), strict=True)) for y in (claimed, right)), 1)
    pairs = claimed[:, :, None] & ~claimed[:, None, :]
    wrong = (~right[:, :, None] & pairs).sum() + (right[:, None, :] & pairs).sum()
    assert audit.share == pytest.approx(wrong / pairs.sum() / 2, abs=0.01)
    assert audit.low < audit.share < audit.high
    if rare == 0.5:
        assert audit.share == pytest.approx(flipped, abs=0.01)


def rate(answers: Sequence[str], answer: str) -> float:
    return sum(one == answer for one in answers) / len(answers)


def test_exact_rewards_are_seldom_said_to_err_however_few_the_groups() -> None:
    rng = np.random.default_rng(2)
    for groups in (20, 200):
        answers = [audited(rng, 2 * groups, groups, 0.25, 0.0) for _ in range(400)]
        assert rate(answers, "rewards err") <= LEVEL + 0.03


def test_with_the_problems_that_are_needed_a_tenth_of_wrong_rewards_is_noticed() -> None:
    """As many as `problems_needed` says from a small sample of the same problems."""
    rng, groups, lift = np.random.default_rng(3), 400, 0.25
    train, held_out = concordance(draw(rng, 2 * groups, lift)), concordance(draw(rng, groups, lift))
    assert train is not None
    assert held_out is not None
    needed = problems_needed(groups, held_out.auc - 0.5, math.hypot(train.error, held_out.error))
    answers = [audited(rng, 2 * needed, needed, lift, NOTICEABLE) for _ in range(100)]
    assert rate(answers, "rewards err") == pytest.approx(POWER, abs=0.08)
    right = [audited(rng, 2 * needed, needed, lift, 0.0) for _ in range(100)]
    assert rate(right, "rewards look right") == pytest.approx(POWER, abs=0.08)
    assert rate(right, "rewards err") <= LEVEL + 0.05


def test_an_answer_says_what_would_give_one() -> None:
    rng = np.random.default_rng(4)
    few = audit_of(concordance(draw(rng, 40, 0.25)), concordance(draw(rng, 20, 0.25)), 20)
    assert few.answer == "cannot tell"
    assert few.problems_needed > 20
    assert f"about {few.problems_needed} validation problems would show 10%" in str(few)
    alike = audit_of(concordance(draw(rng, 40, 0.0)), concordance(draw(rng, 20, 0.0)), 20)
    assert "not even validation's agree" in str(alike)
    assert audit_of(None, None, 0).answer == "cannot tell"
    assert str(audit_of(concordance(draw(rng, 900, 0.3, 0.3)), concordance(draw(rng, 900, 0.3)), 900)).startswith(
        "rewards err: about "
    )
