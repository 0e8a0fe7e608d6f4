"""The groups of an update: each trajectory's selected samples with their advantages and denominators."""

from collections.abc import Sequence

from tasks.grpo.step_plan import Group
from tasks.model.policy import Policy
from tasks.objective.advantages import weighted
from tasks.objective.samples import counted_rewards, is_cut, merged, samples_of
from tasks.objective.token_weights import Averaging
from tasks.params.sections import Grpo
from tasks.records import RewardedTrajectory, Selected


def groups_of(
    policy: Policy,
    trajectories: Sequence[RewardedTrajectory],
    selection: Sequence[Selected],
    grpo: Grpo,
    longest: int,
) -> list[Group]:
    """The update's view of each trajectory, whose completions have at most `longest` tokens.

    Raises ValueError where the selection is of other trajectories.
    """
    averaging = Averaging(grpo.loss, longest)
    lines = {(s.problem_id, s.member): s for s in selection}
    members = {(t.problem_id, m): code for t in trajectories for m, code in enumerate(t.workflow_ids)}
    if {key: line.workflow_id for key, line in lines.items()} != members:
        raise ValueError("does not name the samples of rewarded.jsonl")
    groups = []
    for trajectory in trajectories:
        chosen = [lines[trajectory.problem_id, member] for member in range(len(trajectory.workflow_ids))]
        given = weighted([line.advantage for line in chosen], grpo.negative_weight)
        gains = [advantage * line.weight for advantage, line in zip(given, chosen, strict=True)]
        samples = samples_of(policy, trajectory, gains)
        learned = [s for s, line in zip(samples, chosen, strict=True) if line.selected and s.advantage != 0]
        rewarded = zip(samples, chosen, counted_rewards(policy, trajectory, grpo.truncated), strict=True)
        silent = [s for s, line, reward in rewarded if reward is not None and line.advantage == 0]
        denominator = averaging.denominator([len(s.completion) for s in [*learned, *silent]])
        groups.append(
            Group(
                trajectory.problem_id,
                merged(learned),
                denominator,
                rewards=tuple(trajectory.rewards),
                lengths=tuple(len(s.completion) for s in samples),
                truncated=sum(is_cut(policy, tokens) for tokens in trajectory.tokens),
                silent=not any(line.advantage for line in chosen),
            )
        )
    return groups
