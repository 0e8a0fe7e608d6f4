"""The update of one round without its files: policy, groups and params → trained policy and metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks.core.metrics_files import LiveRows
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.recorded_logprobs import Logprobs, score_samples
from tasks.params.params import Params
from tasks.seeds import derive_seed
from tasks.update.checkpoint import Checkpoint
from tasks.update.metrics import Metrics, round_metrics
from tasks.update.sampler_correction import correct_groups
from tasks.update.step_plan import UpdateGroup, plan_steps
from tasks.update.update import train


@dataclass(frozen=True)
class UpdateResult:
    """The metrics of each step and of the round, and the speed of this process."""

    rows: list[Metrics]
    metrics: Metrics
    tokens_per_second: float


def update_policy(
    policy: Policy,
    groups: Sequence[UpdateGroup],
    reference: Logprobs | None,
    params: Params,
    round: int,
    checkpoint: Checkpoint | None = None,
    live: LiveRows | None = None,
    value_head: Any = None,
) -> UpdateResult:
    """Train the policy in place. `reference`: from `reference_scores`; None where `update.beta` is 0.

    `value_head`: trained, too, with algorithm ppo, where the samples of the groups have targets and `params` are from
    `with_ppo_objective`.
    """
    update, ppo = params.update, None
    scorer = update_scorer(policy, _samples(groups), params)
    groups, corrected = correct_groups(scorer, groups, update.sampler_correction)
    if value_head is not None:
        ppo = params.ppo
        scorer = replace(scorer, value_head=value_head)
    steps, skipped = plan_steps(
        groups, update.epochs, update.prompts_per_step, derive_seed(params.seed, "update", round)
    )
    rows, tokens_per_second = train(scorer, steps, update, reference, checkpoint, live, ppo)
    return UpdateResult(rows, round_metrics(rows, skipped, groups) | corrected, tokens_per_second)


def reference_scores(reference: Policy, groups: Sequence[UpdateGroup], params: Params) -> Logprobs:
    """The reference's log-probabilities of all samples."""
    return score_samples(update_scorer(reference, _samples(groups), params), _samples(groups))


def update_scorer(policy: Policy, samples: Sequence[Sample], params: Params) -> Scorer:
    """The scorer of an update of these samples."""
    update = params.update
    return scorer_for(
        policy, samples, params.search.temperature, update.micro_batch_tokens, update.bf16, update.checkpointing
    )


def _samples(groups: Sequence[UpdateGroup]) -> list[Sample]:
    return [sample for group in groups for sample in group.samples]
