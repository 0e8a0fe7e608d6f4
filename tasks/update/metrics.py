"""Metrics of an update: a row for each step, and the round's summary of them.

    loss                    policy_loss + kl_loss + entropy_loss + value_loss, the parts as they enter it (TRL's
                            policy_loss is the first two)
    kl                      mean estimate of KL(policy ‖ reference) of a token, before beta and correction
    kl_sequence             the same, summed over a completion: mean of the samples
    kl_share                |kl_loss| / (|policy_loss| + |kl_loss|)
    beta                    weight of the KL in the step, only with update.kl_target
    entropy                 mean entropy of a token at the sampling temperature
    clip_ratio/low_mean     share of the tokens whose gradient the clip took away because their ratio was too low,
    clip_ratio/high_mean    too high (cispo: whose weight it bounded)
    ratio, ratio_max        p now / p when sampled, mean over the tokens and largest
    advantage_std           of what the step learned from, weighted as it was
    reward, reward_std      of all completions of the step's problems whose reward is known
    no_signal_fraction      share of the problems none of whose completions has an advantage other than 0
    completions/…           lengths in tokens of all completions of the step's problems; clipped_ratio: share cut at
                            policy.max_new_tokens

With algorithm ppo, where kl is in the rewards and `advantage_std` that of the last tokens, also:

    value_loss              value_weight · mean of the tokens' squared errors / 2
    explained_variance      1 - Var(R - v) / Var(R) over the tokens, R the returns, v the values: 1 where they are
                            equal, 0 where the values might as well be one number
    value, return           means over the tokens

The names are TRL's where it has one. Times are not among them: the same inputs give the same bytes.
"""

import math
from collections.abc import Sequence

from tasks.objective.advantages import TOLERANCE, known_rewards, standard_deviation
from tasks.update.gradient import TokenSums
from tasks.update.step_plan import Step, UpdateGroup

Metrics = dict[str, float]
"""Name → number."""

VALUES = ("explained_variance", "value", "return")

TOKEN_MEANS = ("ratio", "clip_ratio/low_mean", "clip_ratio/high_mean", "kl", "entropy", *VALUES)
"""Means over the tokens of a step: their means over a round are weighted."""

STEP_ONLY = ("step", "epoch", "tokens", "samples", "first_ratio", "ratio_max")
"""Metrics of a step that the round has in another form, or not at all."""


def step_metrics(
    number: int,
    step: Step,
    sums: TokenSums,
    norm: float,
    rate: float,
    with_values: bool = False,
) -> Metrics:
    """The metrics of one step; `norm` is that of the gradient before it was clipped, `rate` the learning rate.

    `with_values`: those of a value head, too.
    """
    tokens = max(sums.tokens, 1)
    parts = abs(sums.policy_loss) + abs(sums.kl_loss)
    learned = [s.advantage for s in step.samples for _ in range(s.count)]
    return {
        "step": number,
        "epoch": step.epoch,
        "loss": sums.loss,
        "policy_loss": sums.policy_loss,
        "kl_loss": sums.kl_loss,
        "entropy_loss": sums.entropy_loss,
        "kl": sums.kl / tokens,
        "kl_sequence": sums.kl / max(len(learned), 1),
        "kl_share": abs(sums.kl_loss) / parts if parts else 0.0,
        "entropy": sums.entropy / tokens,
        "clip_ratio/low_mean": sums.low / tokens,
        "clip_ratio/high_mean": sums.high / tokens,
        "ratio": sums.ratio / tokens,
        "ratio_max": sums.ratio_max,
        "grad_norm": norm,
        "learning_rate": rate,
        **(_of_values(sums, tokens) if with_values else {}),
        "advantage_std": standard_deviation(learned),
        "samples": len(learned),
        "tokens": round(sums.tokens),
        **_of_completions(step.groups),
    }


def to_csv(rows: Sequence[Metrics]) -> str:
    """The rows as a csv file, with a line of names first."""
    lines = [list(rows[0]) if rows else ["step"], *([repr(value) for value in row.values()] for row in rows)]
    return "".join(",".join(line) + "\n" for line in lines)


def round_metrics(rows: Sequence[Metrics], skipped: int, groups: Sequence[UpdateGroup]) -> Metrics:
    """The round's numbers: means over its steps, weighted by tokens where they are means over tokens."""
    samples = [s for g in groups for s in g.samples]
    tokens = sum(row["tokens"] for row in rows)
    numbers: Metrics = {
        "steps": len(rows),
        "skipped_steps": skipped,
        "samples": sum(s.count for s in samples),
        "distinct_samples": len(samples),
        "tokens": sum(len(s.completion) * s.count for s in samples),
        "first_ratio": rows[0]["ratio"] if rows else 0.0,
        "ratio_max": max((row["ratio_max"] for row in rows), default=0.0),
        **_of_completions(groups),
    }
    for name in (name for name in (rows[0] if rows else ()) if name not in STEP_ONLY and name not in numbers):
        weights = [row["tokens"] / tokens if name in TOKEN_MEANS else 1 / len(rows) for row in rows]
        numbers[name] = math.fsum(row[name] * weight for row, weight in zip(rows, weights, strict=True))
    if rows:
        numbers["clip_fraction"] = numbers["clip_ratio/low_mean"] + numbers["clip_ratio/high_mean"]
    return numbers


def _of_values(sums: TokenSums, tokens: float) -> Metrics:
    returns, errors = sums.returns / tokens, sums.errors / tokens
    variance = sums.squared_returns / tokens - returns**2
    unexplained = sums.squared_errors / tokens - errors**2
    return {
        "value_loss": sums.value_loss,
        "explained_variance": 1 - unexplained / variance if variance > TOLERANCE else 0.0,
        "value": returns - errors,
        "return": returns,
    }


def _of_completions(groups: Sequence[UpdateGroup]) -> Metrics:
    """Metrics of all completions of some problems, selected or not."""
    rewards = known_rewards(reward for g in groups for reward in g.rewards)
    lengths = [length for g in groups for length in g.lengths]
    return {
        "reward": _mean(rewards),
        "reward_std": standard_deviation(rewards),
        "no_signal_fraction": sum(g.no_signal for g in groups) / max(len(groups), 1),
        "completions/mean_length": _mean(lengths),
        "completions/min_length": min(lengths, default=0),
        "completions/max_length": max(lengths, default=0),
        "completions/clipped_ratio": sum(g.truncated for g in groups) / max(len(lengths), 1),
    }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / max(len(values), 1)
