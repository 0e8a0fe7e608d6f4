"""The update of a round over values: models, completions and their selection → trained policy and metrics."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tasks.core.metrics_files import LiveRows
from tasks.core.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.model.training_checkpoint import Checkpoint
from tasks.objective.recorded_logprobs import Logprobs, score_samples
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.ppo.losses import with_ppo_objective
from tasks.records.problems import Split
from tasks.records.selection import Selected
from tasks.round_start import Models, RoundStart, start_round
from tasks.seeds import derive_seed
from tasks.trajectories import RewardedTrajectory
from tasks.update.metrics import Metrics, round_metrics
from tasks.update.sampler_correction import correct_groups
from tasks.update.step_plan import UpdateGroup, plan_steps, selected_groups
from tasks.update.update import train


class RoundUpdate(NamedTuple):
    """The trained policy of a round, its start with the trained value head, and how the update went."""

    policy: Policy
    start: RoundStart
    result: "UpdateResult"


@dataclass(frozen=True)
class UpdateResult:
    """The metrics of each step and of the round, and the speed of this process."""

    rows: list[Metrics]
    metrics: Metrics
    tokens_per_second: float


def update_round(
    models: Models,
    rewarded: Iterable[RewardedTrajectory],
    lines: Sequence[Selected],
    params: Params,
    round: int,
    checkpoint: Checkpoint | None = None,
    live: LiveRows | None = None,
) -> RoundUpdate:
    """Train the policy that the round starts from on the selected samples, and with algorithm ppo its value head.

    In several processes all call it together. Raises GraftError where the lines are of other completions.
    """
    params = with_ppo_objective(params)
    splits: list[Split] = list(dict.fromkeys(["train", *(line.split for line in lines)]))
    with explain_out_of_memory(params.update.micro_batch_tokens):
        start = start_round(models, rewarded, splits, params)
        groups = selected_groups(
            [group for split in splits for group in start.groups[split]],
            lines,
            TokenWeights(params.update.loss, params.policy.max_new_tokens),
        )
        # One model is in memory: the reference scores before the policy is loaded that is to be trained.
        reference = start.reference
        if reference is None and params.update.beta > 0:
            samples = _samples(groups)
            reference = score_samples(update_scorer(models.reference(), samples, params), samples)
        policy = models.policy()
        result = update_policy(policy, groups, reference, params, round, checkpoint, live, start.head)
    return RoundUpdate(policy, start, result)


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
    """Train the policy in place. `reference`: log-probabilities by the reference; None where `update.beta` is 0.

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


def update_scorer(policy: Policy, samples: Sequence[Sample], params: Params) -> Scorer:
    """The scorer of an update of these samples."""
    update = params.update
    return scorer_for(
        policy, samples, params.search.temperature, update.micro_batch_tokens, update.bf16, update.checkpointing
    )


def _samples(groups: Sequence[UpdateGroup]) -> list[Sample]:
    return [sample for group in groups for sample in group.samples]
