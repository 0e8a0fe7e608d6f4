"""A policy on trial: `evaluate` and `validate` measure a run's policies this way, and `promote` a champion."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.environments.lookup import environment_in
from tasks.environments.protocol import with_checked_siblings
from tasks.environments.runner import make_runner
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.model.rollouts.attempts import attempts
from tasks.model.rollouts.operator_model import entered, served_by
from tasks.params.params import Params
from tasks.records import Attempt, Problem


class Trial(NamedTuple):
    """The problems as they were posed, the distinct workflows of each, and the numbers of what a model was asked."""

    problems: list[Problem]
    attempts: list[list[Attempt]]
    asked: dict[str, float]


def trial(
    layout: Layout,
    params: Params,
    folder: Path,
    problems: Sequence[Problem],
    address: str,
    samples: int = 0,
    temperature: float = 1.0,
) -> Trial:
    """Let the policy in `folder` solve the problems, greedily and in `samples` more; `address` is the stage that asks.

    Raises GraftError where the folder is no policy, or nobody knows what one of its workflows gives.
    """
    environment = environment_in(layout.root, params)
    asked = [with_checked_siblings(environment, problem) for problem in problems]
    policy = load_policy(folder)
    served = served_by(policy, params.operators, layout)
    with make_runner(environment, params.sandbox, served) as runner:
        length = params.policy.max_new_tokens
        written = attempts(policy, environment, asked, runner, length, samples, temperature, params.seed)
    return Trial(asked, written, entered(served, layout, address))
