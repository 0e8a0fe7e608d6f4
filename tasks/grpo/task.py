"""The update stage: rewarded trajectories and their selection → the round's policy."""

from collections.abc import Sequence

from tasks.artifacts import read_jsonl, write_json
from tasks.errors import GraftError
from tasks.grpo.update import Group, scores_of, update
from tasks.layout import Layout
from tasks.params import Grpo, Params
from tasks.policy.advantages import weighted
from tasks.policy.averaging import Averaging
from tasks.policy.base import Policy, load_policy, save_policy
from tasks.policy.rewarded import rewarded_of
from tasks.policy.samples import counted_rewards, merged, samples_of
from tasks.records import RewardedTrajectory, Selected
from tasks.seeds import derive_seed


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Update the policy of the round before on this round's selected samples.

    The reference is round 0's policy. It is scored first and then makes room: one model is in memory.
    """
    assert round is not None
    trajectories = [t for t in rewarded_of(layout, round) if t.split == "train"]
    selection = read_jsonl(layout.selection(round), Selected)
    policy = load_policy(layout.policy(0))
    try:
        groups = groups_of(policy, trajectories, selection, params.grpo, params.policy.max_new_tokens)
    except ValueError as error:
        raise GraftError(f"{layout.selection(round)}: {error}; run graft stage select@{round} again") from error
    temperature = params.search.temperature
    reference = scores_of(policy, groups, temperature) if params.grpo.beta > 0 else None
    policy = load_policy(layout.policy(round - 1), instead_of=policy)
    seed = derive_seed(params.seed, "update", round)
    numbers = update(policy, groups, params.grpo, temperature, seed, reference)
    numbers["no_signal_fraction"] = sum(s.advantage == 0 for s in selection) / max(len(selection), 1)
    save_policy(policy, layout.policy(round), parent=policy.version, round=round)
    write_json(layout.metrics("update", round), numbers)


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
        samples = samples_of(policy, trajectory, weighted([line.advantage for line in chosen], grpo.negative_weight))
        learned = [s for s, line in zip(samples, chosen, strict=True) if line.selected and s.advantage != 0]
        rewarded = zip(samples, chosen, counted_rewards(policy, trajectory, grpo.truncated), strict=True)
        silent = [s for s, line, reward in rewarded if reward is not None and line.advantage == 0]
        denominator = averaging.denominator([len(s.completion) for s in [*learned, *silent]])
        groups.append(Group(trajectory.problem_id, merged(learned), denominator))
    return groups
