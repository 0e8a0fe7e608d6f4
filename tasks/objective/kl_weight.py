"""The weight beta of the KL term at each step: constant, or adapted to a target KL.

Adapted, after each step, from `update.beta` on:

    e    = clip((KL - kl_target) / kl_target, -0.2, 0.2)
    beta = beta · (1 + e · min(1, n / kl_horizon))

Ziegler et al. 2019, "Fine-Tuning Language Models from Human Preferences" (arXiv 1909.08593), §2.2, with a constant K_β
in the place of n / kl_horizon; that is in their code and in TRL's AdaptiveKLController, n being the completions of the
step. The bound of 1 keeps beta above 0 where a step has more completions than the horizon. KL is the metric `kl` of the
step, of a token, from the completions that it learned from; theirs is of a completion.

There is one reference in a run, so it goes on from round to round.
"""

from pathlib import Path

from tasks.artifacts import read_json
from tasks.params.update import Update
from tasks.records import KlWeight

MOST = 0.2
"""Bound of the error e."""


def varies(params: Update) -> bool:
    """Whether beta differs from step to step."""
    return params.kl_target is not None


def first_weight(params: Update) -> KlWeight:
    """The weight before the first step of a run."""
    return KlWeight(beta=params.beta)


def read_weight(path: Path, params: Update) -> KlWeight:
    """The weight that a round has left in this file; that of a run's first step where it has left none."""
    return read_json(path, KlWeight) if varies(params) and path.exists() else first_weight(params)


def after_step(weight: KlWeight, kl: float, completions: int, params: Update) -> KlWeight:
    """The weight after a step with this KL of a token and number of completions."""
    if params.kl_target is None:
        return weight
    error = min(max(kl / params.kl_target - 1, -MOST), MOST)
    return KlWeight(beta=weight.beta * (1 + error * min(1.0, completions / params.kl_horizon)))
