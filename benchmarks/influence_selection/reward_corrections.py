"""Rewards without selection that err less: corrected for their flip rates, or given by the majority.

Noise-corrected GRPO (El Mansouri et al. 2025, arXiv 2510.18924) takes a reward in {0, 1} for the true one, inverted
with the rates ρ⁺ = P(1 | truly 0) and ρ⁻ = P(0 | truly 1). Since E[r] = (1 - ρ⁺ - ρ⁻) r_true + ρ⁺,

    r̂ = (r - ρ⁺) / (1 - ρ⁺ - ρ⁻)

has the true reward as its mean, and r̂ - mean(r̂) gives Dr. GRPO an unbiased gradient. The rates are estimated on the
trusted completions, for which both rewards are known.

The majority (TTRL, Zuo et al. 2025, arXiv 2504.16084) needs no reward: a completion is right if its answer is the most
frequent one of its group.
"""

from collections import Counter
from collections.abc import Sequence

from benchmarks.influence_selection.world import Rollout


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


def corrected(rewards: Sequence[Sequence[float]], rates: tuple[float, float]) -> list[list[float]]:
    """r̂ of binary rewards [n][G]; 0 for all, which is no signal, where the rates leave no information."""
    false, missed = rates
    left = 1 - false - missed
    return [[((r > 0.5) - false) / left if left > 0 else 0.0 for r in group] for group in rewards]


def majority_rewards(groups: Sequence[Sequence[Rollout]]) -> list[list[float]]:
    """1 where the answer is the group's most frequent one, the first of equally frequent ones; 0 without an answer."""
    rewards = []
    for group in groups:
        answers = Counter(r.answer for r in group if r.answer is not None)
        most = answers.most_common(1)[0][0] if answers else None
        rewards.append([float(r.answer is not None and r.answer == most) for r in group])
    return rewards
