"""The update stage: rewarded trajectories and their selection → the round's policy."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.errors import GraftError
from tasks.grpo.checkpoint import Checkpoint
from tasks.grpo.groups import groups_of
from tasks.grpo.metrics import round_numbers, table_of
from tasks.grpo.recorded_logprobs import scores_of
from tasks.grpo.step_plan import plan
from tasks.grpo.update import update
from tasks.layout import Layout
from tasks.model.distributed.collectives import rank
from tasks.model.distributed.torchrun import run_in_processes
from tasks.model.out_of_memory import memory_named
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_of
from tasks.objective.recorded_completions import fitting
from tasks.params.params import Params
from tasks.records import Selected, Split
from tasks.seeds import derive_seed
from tasks.sources.fingerprint import fingerprint


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
