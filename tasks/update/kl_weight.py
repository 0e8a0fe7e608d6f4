"""The weight beta of the KL term at each step, where `update.kl_target` is set: a controller that keeps the KL at it.

From `update.beta` at a round's first step, after each step:

    e      = clip((KL - kl_target) / kl_target, -0.2, 0.2)
    beta_+ = beta · (1 + K e),  K = 0.1

Ziegler et al. 2019, "Fine-Tuning Language Models from Human Preferences" (arXiv 1909.08593), §2.2; in their code, and
in AdaptiveKLController of TRL's PPO, K is completions of a step / horizon. KL is that of a completion, `kl_sequence` of
the step. A beta is a function of the rows of metrics before it, which the checkpoint has: a killed update goes on with
the same. It is not carried from round to round.
"""

from collections.abc import Mapping, Sequence

from tasks.params.sections import Update

GAIN = 0.1
"""K of the controller."""

LARGEST_ERROR = 0.2
"""Bound of e."""


def beta_after_step(beta: float, kl: float, target: float) -> float:
    """The beta of the step that follows one with this KL of a completion, in nats."""
    error = (kl - target) / target
    return beta * (1 + GAIN * min(max(error, -LARGEST_ERROR), LARGEST_ERROR))


def beta_of_next_step(rows: Sequence[Mapping[str, float]], params: Update) -> float:
    """The beta of the step after those with these metrics."""
    if params.kl_target is None or not rows:
        return params.beta
    return beta_after_step(rows[-1]["beta"], rows[-1]["kl_sequence"], params.kl_target)
