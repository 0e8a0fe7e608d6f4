"""The update stage: rewarded trajectories and their selection → the round's policy."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.errors import GraftError
from tasks.fingerprint import fingerprint
from tasks.grpo.checkpoint import Checkpoint
from tasks.grpo.numbers import round_numbers, table_of
from tasks.grpo.scores import scores_of
from tasks.grpo.steps import Group, plan
from tasks.grpo.update import update
from tasks.layout import Layout
from tasks.params import Grpo, Params
from tasks.policy.advantages import weighted
from tasks.policy.averaging import Averaging
from tasks.policy.base import Policy, load_policy, save_policy
from tasks.policy.fitting import fitting
from tasks.policy.launch import run_in_processes
from tasks.policy.memory import memory_named
from tasks.policy.processes import rank
from tasks.policy.samples import Sample, counted_rewards, is_cut, merged, samples_of
from tasks.policy.scorer import Scorer, scorer_of
from tasks.records import RewardedTrajectory, Selected, Split
from tasks.seeds import derive_seed


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Update the policy of the round before on this round's selected samples, in `grpo.processes` processes."""
    assert round is not None
    if params.grpo.processes > 1:
        run_in_processes(compute, layout, params, round)
    else:
        compute(layout, params, round)


def compute(layout: Layout, params: Params, round: int) -> None:
    """The update, in this process or in all that it is one of; the first of them writes.

    The reference is round 0's policy. It is scored first and then makes room: one model is in memory.
    """
    selection = read_jsonl(layout.selection(round), Selected)
    policy = load_policy(layout.policy(0 if params.grpo.beta > 0 else round - 1))
    splits = list(dict.fromkeys(["train", *(line.split for line in selection)]))
    unfit = Counter[Split]()
    trajectories = list(fitting(policy, layout, round, splits, params.grpo.unfit, unfit))
    try:
        groups = groups_of(policy, trajectories, selection, params.grpo, params.policy.max_new_tokens)
    except ValueError as error:
        raise GraftError(f"{layout.selection(round)}: {error}; run graft stage select@{round} again") from error
    grpo, samples = params.grpo, [s for g in groups for s in g.samples]
    steps, skipped = plan(groups, grpo.epochs, grpo.prompts_per_step, derive_seed(params.seed, "update", round))
    checkpoint = _checkpoint(layout, params, round, policy)
    with memory_named(grpo.micro_batch_tokens):
        reference = None
        if grpo.beta > 0:
            reference = scores_of(_scorer(policy, samples, params), samples)
            policy = load_policy(layout.policy(round - 1), instead_of=policy)
        done = update(_scorer(policy, samples, params), steps, grpo, reference, checkpoint)
    if rank():
        return
    save_policy(policy, layout.policy(round), parent=policy.version, round=round)
    write_text(layout.steps(round), table_of(done.rows))
    numbers = round_numbers(done.rows, skipped, groups)
    write_json(layout.metrics("update", round), numbers | {"unfit_samples": unfit.total()})
    write_json(layout.speed(f"update@{round}"), {"tokens_per_second": done.tokens_per_second})
    checkpoint.remove()


def _scorer(policy: Policy, samples: Sequence[Sample], params: Params) -> Scorer:
    scorer = scorer_of(policy, samples, params.search.temperature, params.grpo.micro_batch_tokens)
    return replace(scorer, bf16=params.grpo.bf16)


def _checkpoint(layout: Layout, params: Params, round: int, policy: Policy) -> Checkpoint:
    """What an update of the same inputs has left that did not come to its end.

    Threads and device are inputs too: they change the last digits.
    """
    import torch

    reads = [layout.policy(0), layout.policy(round - 1), layout.rewarded(round), layout.selection(round)]
    machine = (torch.__version__, torch.get_num_threads(), policy.device.type)
    return Checkpoint(layout.journals("update", round) / f"{fingerprint(reads, params, round, *machine)}.pt")


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
