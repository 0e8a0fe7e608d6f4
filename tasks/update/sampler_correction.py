"""Correction of an update for the mismatch between its sampler and the policy (`update.sampler_correction`).

    w = exp(log p_own - log p_recorded)     of each token, before the first step, without a gradient

    none        recorded log-probabilities are the denominator of the ratio r, so w is a factor of r, exact, and clipped
                with it; with update.bf16 or weights of 16 bits the policy's own are, and w is left out
    truncate    A · min(w, C)           truncated importance sampling: Ionides 2008, J. Comp. Graph. Stat. 17(2); of
                                        each token's gradient (TIS) Yao et al. 2025, "Your Efficient RL Framework
                                        Secretly Brings You Off-Policy RL Training"
    mask        A · w if w ≤ C, else 0  masked importance sampling (MIS): Liu et al. 2025, "When Speed Kills Stability"

C is 2 (tasks/model/scoring/mismatch.py), as in verl. With truncate and mask the policy's own log-probabilities are
the denominator of r, which so is 1 at the first step, and the clip acts on what the update itself changes. Every
surrogate of `update.loss` is proportional to the advantage A, so that w is a factor of the surrogate, as in TRL; the KL
term and the entropy bonus are as they are.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from tasks.model.sample import Sample
from tasks.model.scoring.mismatch import BOUND, LARGEST
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import sample_key, score_samples
from tasks.params.fields import SamplerCorrection
from tasks.update.step_plan import UpdateGroup


def correct_groups(
    scorer: Scorer, groups: Sequence[UpdateGroup], correction: SamplerCorrection
) -> tuple[list[UpdateGroup], dict[str, float]]:
    """The groups with the samples' own log-probabilities and token weights, and the metrics of these.

    A sample without recorded log-probabilities stays as it is. All processes call it together.
    """
    samples = [s for g in groups for s in g.samples if s.behaviour]
    if correction == "none" or not samples:
        return list(groups), {}
    scores = {key: tuple(row.tolist()) for key, row in score_samples(scorer, samples).items()}

    def corrected(sample: Sample) -> Sample:
        logprobs = scores.get(sample_key(sample))
        if logprobs is None:
            return sample
        # The policy's are the ratio's denominator from here on: the weight holds what the sampler's differ by.
        weights = token_weights(logprobs, sample.behaviour, correction)
        return replace(sample, behaviour=logprobs, token_weights=weights)

    corrected_groups = [replace(g, samples=[corrected(s) for s in g.samples]) for g in groups]
    tokens = sum(s.count * len(s.completion) for s in samples)
    weights = [(w, s.count) for g in corrected_groups for s in g.samples for w in s.token_weights]
    bounded = [s.count for s in samples for r in _ratios(scores[sample_key(s)], s.behaviour) if r > BOUND]
    return corrected_groups, {
        "sampler_correction/mean_weight": math.fsum(w * count for w, count in weights) / tokens,
        "sampler_correction/bounded_share": sum(bounded) / tokens,
    }


def token_weights(
    logprobs: Sequence[float], recorded: Sequence[float], correction: SamplerCorrection
) -> tuple[float, ...]:
    """The weight of each token [T], from the policy's log-probabilities and the recorded ones."""
    ratios = _ratios(logprobs, recorded)
    if correction == "truncate":
        return tuple(min(ratio, BOUND) for ratio in ratios)
    return tuple(ratio if ratio <= BOUND else 0.0 for ratio in ratios)


def _ratios(logprobs: Sequence[float], recorded: Sequence[float]) -> list[float]:
    """p / p_recorded; of a token to which the sampler gave next to nothing a large number."""
    return [math.exp(min(a - b, LARGEST)) for a, b in zip(logprobs, recorded, strict=True)]
