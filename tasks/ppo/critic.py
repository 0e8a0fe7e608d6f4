"""The critic of a round: values of its completions, and from them the advantages and returns of their tokens.

They are those at the policy and the value head of the round before.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sample import Sample, TokenTargets
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.groups import GroupsBySplit, SampleGroup, samples_in
from tasks.objective.recorded_logprobs import (
    Logprobs,
    SampleKey,
    behaviour_logprobs,
    pad_logprobs,
    sample_key,
    score_samples,
)
from tasks.params.params import Params
from tasks.params.sections import Ppo
from tasks.ppo.gae import estimate_advantages, token_rewards, whiten


def score_splits(reference: Policy, groups: GroupsBySplit, params: Params) -> Logprobs:
    """The reference's log-probabilities of all samples, one split after the other."""
    scores: Logprobs = {}
    for batch in map(samples_in, groups.values()):
        scores |= score_samples(_scorer(reference, batch, params), batch)
    return scores


def criticise(
    policy: Policy, head: Any, groups: GroupsBySplit, reference: Logprobs | None, params: Params
) -> GroupsBySplit:
    """The groups with the targets of their tokens, from the values of the head.

    Raises GraftError where a train completion is no independent sample of the policy.
    """
    check_independent(groups["train"])
    criticised = GroupsBySplit()
    for split, batch in groups.items():
        samples = samples_in(batch)
        scorer, kl = replace(_scorer(policy, samples, params), value_head=head), None
        if reference is not None:  # it is paid in the rewards of the tokens, not in the loss
            kl = {key: row - reference[key] for key, row in behaviour_logprobs(scorer, samples).items()}
        values = score_samples(scorer, samples, "values")
        criticised[split] = with_targets(batch, values, kl, params.update.beta, params.ppo)
    return criticised


def with_targets(
    groups: Sequence[SampleGroup], values: Logprobs, kl: Logprobs | None, beta: float, ppo: Ppo
) -> list[SampleGroup]:
    """The groups with the targets of their samples' tokens; a sample's advantage is that of its last token.

    `values` and `kl` are of the tokens of all samples. Samples whose reward is not known have no targets and advantage
    0. All tokens of the groups are whitened together.
    """
    scored = [
        (sample, reward)
        for group in groups
        for sample, reward in zip(group.samples, group.baseline_rewards, strict=True)
        if reward is not None
    ]
    targets = token_targets([s for s, _ in scored], [reward for _, reward in scored], values, kl, beta, ppo)
    criticised = []
    for group in groups:
        pairs = ((s, targets.get(sample_key(s))) for s in group.samples)
        samples = [replace(s, advantage=t.advantages[-1] if t else 0.0, targets=t) for s, t in pairs]
        criticised.append(replace(group, samples=samples, advantages=[s.advantage for s in samples]))
    return criticised


def token_targets(
    samples: Sequence[Sample],
    rewards: Sequence[float],
    values: Logprobs,
    kl: Logprobs | None,
    beta: float,
    ppo: Ppo,
) -> dict[SampleKey, TokenTargets]:
    """The targets of each sample's tokens, in float64. `kl`: of the tokens, None where beta is 0."""
    if not samples:
        return {}
    # One batch of rows: tokens are whitened together, whatever micro-batches gave the values.
    lengths = torch.tensor([len(s.completion) for s in samples])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    zeros = torch.zeros(mask.shape, dtype=torch.float64)
    value_rows = pad_logprobs(values, samples, zeros)
    kl_rows = zeros if kl is None else pad_logprobs(kl, samples, zeros)
    rewarded = token_rewards(torch.tensor(rewards, dtype=torch.float64), kl_rows, mask, beta)
    advantages, returns = estimate_advantages(rewarded, value_rows, mask, ppo.gamma, ppo.lam)
    rows = zip(whiten(advantages, mask).tolist(), returns.tolist(), strict=True)
    return {
        sample_key(s): TokenTargets(*(tuple(numbers[: len(s.completion)]) for numbers in row))
        for s, row in zip(samples, rows, strict=True)
    }


def check_independent(groups: Sequence[SampleGroup]) -> None:
    """Raise GraftError for a completion that is no independent sample of the policy."""
    for group in groups:
        for member, proposer in enumerate(group.proposers):
            if proposer != "sample":
                raise GraftError(
                    f"completion {member} of problem {group.problem_id!r} was written by {proposer}, but algorithm ppo "
                    "learns from independent samples alone; set search.simulations to search.samples, and search again"
                )


def _scorer(policy: Policy, samples: Sequence[Sample], params: Params) -> Scorer:
    return scorer_for(policy, samples, params.search.temperature, params.update.micro_batch_tokens, params.update.bf16)
