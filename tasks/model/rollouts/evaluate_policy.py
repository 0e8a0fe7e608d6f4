"""Rollouts of a saved policy on problems, as `evaluate`, `validate` and `promote` measure it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tasks.environments.lookup import environment_in
from tasks.environments.protocol import with_checked_siblings
from tasks.environments.runner import make_runner
from tasks.layout import Layout
from tasks.model.rollouts.attempts import attempt_problems, complete_questions
from tasks.model.rollouts.operator_model import log_usage, operator_model
from tasks.model.sampling.vllm.serve import serve_policy
from tasks.model.served_model import load_sampled_policy
from tasks.params.params import Params
from tasks.records import Attempt, Problem


class Rollouts(NamedTuple):
    """The problems with their checked siblings, the distinct workflows of each, and the metrics of model calls.

    `played`: what the environment's `play` measured, if it was asked to.
    """

    problems: list[Problem]
    attempts: list[list[Attempt]]
    usage: dict[str, float]
    played: dict[str, float]


def evaluate_policy(
    layout: Layout,
    params: Params,
    folder: Path,
    problems: Sequence[Problem],
    stage_id: str,
    samples: int = 0,
    temperature: float = 1.0,
    play: bool = False,
) -> Rollouts:
    """Let the policy in `folder` attempt the problems, greedily and with `samples` samples; for the stage `stage_id`.

    `play`: let the environment measure it in play, too.

    Raises GraftError if the folder is no policy, or one of its workflows has no result.
    """
    environment = environment_in(layout.root, params)
    checked = [with_checked_siblings(environment, problem) for problem in problems]
    with serve_policy(layout, params.vllm, folder, stage_id) as served:
        policy = load_sampled_policy(folder, served)
        operators = operator_model(policy, params.operators, layout)
        with make_runner(environment, params.sandbox, operators) as runner:
            length = params.policy.max_new_tokens
            attempts = attempt_problems(policy, environment, checked, runner, length, samples, temperature, params.seed)
            complete = partial(complete_questions, policy, environment, max_new_tokens=length, serves=runner.serves)
            played = environment.play(checked, complete) if play else {}
    return Rollouts(checked, attempts, log_usage(operators, layout, stage_id), played)
