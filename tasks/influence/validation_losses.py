"""The losses that influence can be measured against, by what they make of a validation sample.

All are L_val = -Σ_j c_j w_j Σ_t log p_jt / M; they differ in c, and the last in w (tasks/objective/token_weights.py):

    influence.loss     c_j                                                                  w_j
    seqloss_lastadv    the advantage of j: its gradient is that of the expected reward      1
    seqloss_reward     the reward of j                                                      1
    contrastive        1 where j is better than its group, -1 where it is worse             1
    good_only          1 where j is no worse than all samples are on average, else 0        1
    policy_gradient    what the update would make of it, grpo.negative_weight and all       as in the update

The first two are from IIF (Hu et al. 2025, "A snapshot of influence"; `seqloss-lastadv`, `seqloss-reward` in its code).
Completions of one problem that are judged by 0 and 1 and of which some are right give good_only = seqloss_reward.
The value of such a loss has no meaning, its sign neither: advantages are centred.
"""

import math
from collections.abc import Sequence

from tasks.objective.advantages import known_rewards
from tasks.params.fields import ValidationLoss


def validation_coefficients(
    loss: ValidationLoss,
    rewards: Sequence[Sequence[float | None]],
    advantages: Sequence[Sequence[float]],
    learned: Sequence[Sequence[float]],
) -> list[list[float]]:
    """c of each sample of each group, all [n][G]; a reward of None is not known and has 0.

    `advantages` are those of the groups, `learned` what the update makes of them.
    """
    if loss == "seqloss_lastadv":
        return [list(group) for group in advantages]
    if loss == "policy_gradient":
        return [list(group) for group in learned]
    if loss == "contrastive":
        return [[math.copysign(1, a) if a else 0.0 for a in group] for group in advantages]
    if loss == "seqloss_reward":
        return [[reward or 0.0 for reward in group] for group in rewards]
    given = known_rewards(reward for group in rewards for reward in group)
    mean = math.fsum(given) / max(len(given), 1)
    return [[float(reward is not None and reward > 0 and reward >= mean) for reward in group] for group in rewards]


def keep_top_k(
    weights: Sequence[Sequence[float]], rewards: Sequence[Sequence[float | None]], top_k: int
) -> list[list[float]]:
    """`weights` with 0 for all but the `top_k` samples of the highest rewards, the first of equal ones; [n][G].

    Below 0: the -`top_k` samples of the lowest.
    """
    places = [(p, m) for p, group in enumerate(rewards) for m, reward in enumerate(group) if reward is not None]
    sign = 1 if top_k > 0 else -1
    best = set(sorted(places, key=lambda place: -sign * (rewards[place[0]][place[1]] or 0.0))[: abs(top_k)])
    return [[c * ((p, m) in best) for m, c in enumerate(group)] for p, group in enumerate(weights)]
