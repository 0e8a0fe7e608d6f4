"""All terms of the rewards of a round, those that others compute among them: the user's own functions, and a model."""

from collections.abc import Sequence
from pathlib import Path

from tasks.environments.environment import Environment
from tasks.modules import modules_of_terms, refuse_changed
from tasks.params import Params, Rewards
from tasks.records import RewardedTrajectory, Trajectory
from tasks.rewards.own import own_column
from tasks.rewards.score import Column, score


def reward(
    root: Path, params: Params, environment: Environment, trajectories: Sequence[Trajectory]
) -> tuple[list[RewardedTrajectory], dict[str, list[Column]]]:
    """The trajectories with their rewards, and what others computed for them {name: [P, G]}; see `check_failures`.

    `root` is the project's folder. Raises GraftError where an own term or the model cannot be loaded, or is not the
    one that the params record.
    """
    measured = measure(root, params.rewards, trajectories)
    longest = params.policy.max_new_tokens
    rewarded = [
        score(environment, each, params.rewards, longest, {name: column[place] for name, column in measured.items()})
        for place, each in enumerate(trajectories)
    ]
    return rewarded, measured


def measure(root: Path, rewards: Rewards, trajectories: Sequence[Trajectory]) -> dict[str, list[Column]]:
    """The terms that are no pure functions of a trajectory {name: [P, G]}."""
    own = [term for term in rewards.own if term.weight > 0]
    _refuse_changed(root, rewards)
    measured = {term.name: own_column(root, term, trajectories, rewards.seconds, rewards.failed_limit) for term in own}
    _refuse_changed(root, rewards)  # a process that was started anew has loaded the source anew
    if rewards.model is not None and rewards.model.weight > 0:
        from tasks.rewards.model import model_column

        measured["model"] = model_column(root, rewards.model, trajectories)
    return measured


def _refuse_changed(root: Path, rewards: Rewards) -> None:
    refuse_changed(root, modules_of_terms(rewards), rewards.own_sha256, "rewards.own_sha256")
