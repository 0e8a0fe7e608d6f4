"""Rewards without selection that err less: corrected for their flip rates, or given by the majority.

Noise-corrected GRPO (El Mansouri et al. 2025, arXiv 2510.18924) takes a reward in {0, 1} for the true one, inverted
with the rates ρ⁺ = P(1 | truly 0) and ρ⁻ = P(0 | truly 1). Since E[r] = (1 - ρ⁺ - ρ⁻) r_true + ρ⁺,

    r̂ = (r - ρ⁺) / (1 - ρ⁺ - ρ⁻)

has the true reward as its mean, and r̂ - mean(r̂) gives Dr. GRPO an unbiased gradient. The rates are estimated on the
trusted completions, for which both rewards are known.

The majority (TTRL, Zuo et al. 2025, arXiv 2504.16084) needs no reward: a completion is right if its answer is the most
frequent one of its group.

Online label refinement (OLR, Yang et al. 2026, arXiv 2604.03993) replaces a problem's reference answer by that of the
majority, where it has been the majority's most often and its share of the group grows by at least SLOPE from pass to
pass over the problem. A completion is then right if it has that answer; the rewards of other problems stay.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression

Answer = int | float | None
"""The number that a workflow returns; None if it returns none."""

SLOPE = 0.05
"""Least growth a pass of the majority's share; its authors' value (of 0.025 and 0.05)."""


def flip_rates(rewards: Sequence[float], truths: Sequence[float]) -> tuple[float, float]:
    """(ρ⁺, ρ⁻) of these rewards; a reward counts as 1 above 0.5.

    Where none of the truths is 0 (or 1), its rate is 0.
    """
    false, missed = 0, 0
    for reward, truth in zip(rewards, truths, strict=True):
        false += truth <= 0.5 < reward
        missed += reward <= 0.5 < truth
    positives = sum(truth > 0.5 for truth in truths)
    return false / max(len(truths) - positives, 1), missed / max(positives, 1)


def corrected(rewards: Sequence[float], rates: tuple[float, float]) -> list[float]:
    """r̂ of binary rewards [G]; 0 for all, which is no signal, where the rates leave no information."""
    false, missed = rates
    left = 1 - false - missed
    return [((reward > 0.5) - false) / left if left > 0 else 0.0 for reward in rewards]


def majority_rewards(answers: Sequence[Answer]) -> list[float]:
    """1 where the answer is the group's most frequent one, the first of equally frequent ones; 0 without an answer."""
    ranked = Counter(answer for answer in answers if answer is not None).most_common(1)
    return [float(bool(ranked) and answer == ranked[0][0]) for answer in answers]


@dataclass(frozen=True)
class Vote:
    """The answer that most completions of a group have, None where there is no single one, and their share."""

    answer: Answer
    share: float


def vote_of(answers: Sequence[Answer]) -> Vote:
    """The vote of one pass over a problem."""
    answer = _single([one for one in answers if one is not None])
    return Vote(answer, sum(one == answer for one in answers) / len(answers) if answer is not None else 0.0)


def refined_answer(votes: Sequence[Vote]) -> Answer:
    """The reference answer that the votes of all passes so far give a problem, None where its own stays."""
    answer = votes[-1].answer
    if answer is None or len(votes) < 2 or _single([vote.answer for vote in votes]) != answer:
        return None
    slope = linear_regression(range(len(votes)), [vote.share for vote in votes]).slope
    return answer if slope >= SLOPE else None


def refined_rewards(rewards: Sequence[float], answers: Sequence[Answer], votes: Sequence[Vote]) -> list[float]:
    """Rewards [G] by the refined answer of the problem, where the votes of its passes give one; else as they are."""
    refined = refined_answer(votes)
    return list(rewards) if refined is None else [float(answer == refined) for answer in answers]


def _single(answers: Sequence[Answer]) -> Answer:
    """The most frequent one, None where several are."""
    ranked = Counter(answers).most_common(2)
    return ranked[0][0] if ranked and (len(ranked) == 1 or ranked[0][1] > ranked[1][1]) else None
