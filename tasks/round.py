"""A round over values in memory: search → trajectories → rewards → selection → update.

The stages read and write files around the same functions. Benchmarks and tests run it from here; `graft diagnose` is
`learn` with an update of one step, which it takes apart.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from tasks.params.params import Params
from tasks.records.selection import Selected
from tasks.rollout import Setting, roll_out
from tasks.round_start import Models
from tasks.search.policy_search import SplitProblem
from tasks.select.select_samples import HeldOut, Selection, ValidationRollout, hold_out, select_samples
from tasks.trajectories import RewardedTrajectory
from tasks.update.compute import RoundUpdate, update_round

Updated = TypeVar("Updated")


class Round(NamedTuple, Generic[Updated]):
    """What a round has learned from its completions."""

    rewarded: Sequence[RewardedTrajectory]
    selection: Selection
    update: Updated


UpdateRound = Callable[[Models, Sequence[RewardedTrajectory], Sequence[Selected], Params, int], Updated]
"""A function with the arguments of `update_round`."""

SelectSamples = Callable[[Models, Sequence[RewardedTrajectory], HeldOut, Params, int], Selection]
"""A function with the arguments of `select_samples`."""


def run_round(
    setting: Setting, models: Models, train: Sequence[SplitProblem], validation: Sequence[SplitProblem], round: int
) -> Round[RoundUpdate]:
    """Search train problems, reward what is found, select from it by validation problems, and train the policy."""

    def sample(first: int, last: int) -> list[RewardedTrajectory]:
        return roll_out(setting, models.policy(), validation[first:last], round)

    return learn(setting.params, models, roll_out(setting, models.policy(), train, round), sample, round, update_round)


def learn(
    params: Params,
    models: Models,
    rewarded: Sequence[RewardedTrajectory],
    sample: ValidationRollout,
    round: int,
    update: UpdateRound[Updated],
    select: SelectSamples = select_samples,
) -> Round[Updated]:
    """Select from a round's completions, and train the policy on them by `update`, in a run `update_round`.

    `sample` rolls out validation problems.
    """
    held_out = hold_out(rewarded, sample, params)
    selection = select(models, rewarded, held_out, params, round)
    updated = update(models, [*rewarded, *held_out.rewarded], selection.lines, params, round)
    return Round(rewarded, selection, updated)
