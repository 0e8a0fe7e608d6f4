"""The selection of a round at a first policy, for measurements of influence that train nothing."""

from dataclasses import dataclass

from benchmarks.influence_selection.training_run import Job, problems_of, rewarded_by
from benchmarks.influence_selection.variants import SAMPLES
from benchmarks.support import short_runs
from tasks.layout import Layout
from tasks.learning.rollout import roll_out
from tasks.model.policy import Policy, load_policy
from tasks.objective.groups import groups_by_split
from tasks.select.select_samples import Selection, select_samples
from tasks.trajectories import RewardedTrajectory

GROUP = 8
"""Completions of a training problem."""


@dataclass(frozen=True)
class FirstRound:
    """The completions of a round at the first policy of a job, with their rewards."""

    job: Job
    policy: Policy
    rewarded: list[RewardedTrajectory]

    def select(self) -> Selection:
        """What the stage `select` would."""
        params = short_runs.params_of(self.job.assignments)
        groups = groups_by_split(self.policy, self.rewarded, ["train", "validation"], params.update)
        return select_samples(self.policy, groups["train"], groups["validation"], params, 1)


def first_round(job: Job) -> FirstRound:
    """Search `job.problems` problems, GROUP completions of each, and those of the validation problems."""
    import torch

    torch.set_num_threads(1)
    params = short_runs.params_of([*job.assignments, *(f"{name}={GROUP}" for name in SAMPLES)])
    policy = load_policy(Layout(job.folder).policy(0))
    with short_runs.setting_of(job.folder, params) as setting:
        searched = roll_out(setting, policy, problems_of(job, params, 1), 1)
    return FirstRound(job, policy, rewarded_by(job, searched, 1, {}))
