"""A round over values in memory: search → trajectories → rewards → selection → update.

The stages read and write files around the same functions. Benchmarks and tests run it from here; `graft diagnose`
takes one step of a round, on completions of tasks/rollout.py.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.params.params import Params
from tasks.rollout import Setting, roll_out
from tasks.round_start import Models
from tasks.search.policy_search import SplitProblem
from tasks.select.select_round import HeldOut, Sample, hold_out, select_round
from tasks.select.select_samples import Selection
from tasks.trajectories import RewardedTrajectory
from tasks.update.compute import UpdateResult, update_round


class Round(NamedTuple):
    """What a round has learned from its completions."""

    rewarded: Sequence[RewardedTrajectory]
    selection: Selection
    update: UpdateResult


Select = Callable[[Models, Sequence[RewardedTrajectory], HeldOut, Params, int], Selection]
"""A function with the arguments of `select_round`."""


def run_round(
    setting: Setting, models: Models, train: Sequence[SplitProblem], validation: Sequence[SplitProblem], round: int
) -> Round:
    """Search train problems, reward what is found, select from it by validation problems, and train the policy."""

    def sample(first: int, last: int) -> list[RewardedTrajectory]:
        return roll_out(setting, models.policy(), validation[first:last], round)

    return learn(setting.params, models, roll_out(setting, models.policy(), train, round), sample, round)


def learn(
    params: Params,
    models: Models,
    rewarded: Sequence[RewardedTrajectory],
    sample: Sample,
    round: int,
    select: Select = select_round,
) -> Round:
    """Select from a round's completions, and train the policy on them; `sample` rolls out validation problems."""
    held_out = hold_out(rewarded, sample, params)
    selection = select(models, rewarded, held_out, params, round)
    updated = update_round(models, [*rewarded, *held_out.rewarded], selection.lines, params, round)
    return Round(rewarded, selection, updated.result)
