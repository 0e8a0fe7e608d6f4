"""All terms of the rewards of a round, those that others compute among them: environment, own functions, a model."""

import math
from collections.abc import Sequence
from pathlib import Path

from tasks.environments.environment import Environment, Term
from tasks.modules import modules_of_terms, refuse_changed
from tasks.params import Params, Rewards
from tasks.records import RewardedTrajectory, Trajectory
from tasks.rewards.own import own_column
from tasks.rewards.score import Column, Measured, score, weights_of
from tasks.rewards.terms import results_of


def reward(
    root: Path, params: Params, environment: Environment, trajectories: Sequence[Trajectory]
) -> tuple[list[RewardedTrajectory], dict[str, list[Column]]]:
    """The trajectories with their rewards, and what others computed for them {name: [P, G]}; see `check_failures`.

    `root` is the project's folder. Raises GraftError where an own term or the model cannot be loaded, or is not the
    one that the params record.
    """
    measured = measure(root, environment, params.rewards, trajectories)
    longest = params.policy.max_new_tokens
    rewarded = [
        score(environment, each, params.rewards, longest, {name: column[place] for name, column in measured.items()})
        for place, each in enumerate(trajectories)
    ]
    return rewarded, measured


def measure(
    root: Path, environment: Environment, rewards: Rewards, trajectories: Sequence[Trajectory]
) -> dict[str, list[Column]]:
    """The terms that are not Graft's own {name: [P, G]}."""
    weights = weights_of(environment, rewards)
    measured: dict[str, list[Column]] = {
        name: [_column(term, trajectory) for trajectory in trajectories]
        for name, term in environment.terms.items()
        if name in weights
    }
    own = [term for term in rewards.own if term.weight > 0]
    _refuse_changed(root, rewards)
    measured |= {term.name: own_column(root, term, trajectories, rewards.seconds, rewards.failed_limit) for term in own}
    _refuse_changed(root, rewards)  # a process that was started anew has loaded the source anew
    if rewards.model is not None and rewards.model.weight > 0:
        from tasks.rewards.model import model_column

        measured["model"] = model_column(root, rewards.model, trajectories)
    return measured


def _column(term: Term, trajectory: Trajectory) -> Column:
    """A term of the environment, which may be the user's own: where it raises or gives no number, it has failed."""
    column = []
    for member, text in enumerate(trajectory.workflow_codes):
        try:
            value = term(trajectory.problem, text, results_of(trajectory, member))
        except Exception as error:  # noqa: BLE001 (anything may come out of a term of somebody's own)
            column.append(Measured(None, "failed", f"{type(error).__name__}: {error}"))
            continue
        known = value is not None and math.isfinite(value)
        column.append(Measured(value) if known else Measured(None, "failed", f"it returned {value}"))
    return column


def _refuse_changed(root: Path, rewards: Rewards) -> None:
    refuse_changed(root, modules_of_terms(rewards), rewards.own_sha256, "rewards.own_sha256")
