"""Measuring a policy on problems: what `evaluate` does on test and `validate` on dev."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.environments.environment import posed
from tasks.environments.named import environment_in
from tasks.environments.running import runner_of
from tasks.evaluation.summary import outcome_of, summarise
from tasks.layout import Layout
from tasks.params import Params
from tasks.policy.attempts import attempts
from tasks.policy.base import load_policy
from tasks.policy.served import entered, served_by
from tasks.records import Attempt, Outcome, Problem


class Measured(NamedTuple):
    """Outcomes in the order of the problems, the distinct workflows of each, and the numbers of them all."""

    outcomes: list[Outcome]
    attempts: list[list[Attempt]]
    numbers: dict[str, float]


def measure(layout: Layout, params: Params, folder: Path, problems: Sequence[Problem], address: str) -> Measured:
    """Let the policy in `folder` solve the problems; `address` is the stage that asks.

    Raises GraftError where the folder is no policy, or nobody knows what one of its workflows gives.
    """
    environment = environment_in(layout.root, params)
    asked = [posed(environment, problem) for problem in problems]
    policy = load_policy(folder)
    served = served_by(policy, params.operators, layout)
    with runner_of(environment, params.sandbox, served) as runner:
        written = attempts(
            policy,
            environment,
            asked,
            runner,
            params.policy.max_new_tokens,
            params.evaluation.samples,
            params.evaluation.temperature,
            params.seed,
        )
    outcomes = [outcome_of(problem, own) for problem, own in zip(asked, written, strict=True)]
    numbers = summarise(outcomes, params.evaluation, params.seed)
    return Measured(outcomes, written, numbers | entered(served, layout, address))
