"""Audit of a round's training rewards, by the gradients of its completions and of validation's.

The estimate of a completion's advantage is the mean of those of the validation completions of other problems, weighted
by the similarity of their gradients (Nadaraya 1964, On Estimating Regression):

    x_i = Σ_j A_j k_ij / Σ_j k_ij        k_ij = max(0, cos(s_i, s_j))⁹        s = ∇ Σ_t log p

concordance.py compares it with the rewards. The training groups are a random part, as many as there are validation
groups with a signal. How many are measured depends on the completions alone, not on time, so that every
machine gives the same answer.
"""

from collections.abc import Sequence
from math import isnan

from tasks.model.distributed.collectives import all_gather
from tasks.model.out_of_memory import explain_out_of_memory
from tasks.model.policy import Policy
from tasks.model.scoring.scorer import Scorer, scorer_for, with_constant_prompts
from tasks.objective.advantages import has_signal, known_rewards
from tasks.objective.groups import SampleGroup, samples_in
from tasks.params.params import Params
from tasks.select.concordance import Audit, Concordance, audit_of, concordance
from tasks.select.gradient_passes import GradientPasses
from tasks.select.local_similarity import LocalSimilarity
from tasks.select.losses import Validation, row_of
from tasks.select.sequential_test import random_order
from tasks.select.tracin import cache_validation_gradients

SHARPNESS = 9
"""Power of the cosine. With 3, as `local` has it, the AUC of training and validation differ by up to 0.06 where all
rewards are right; with 9 by 0.02 (three rounds of the default)."""


def audit_rewards(
    policy: Policy,
    train: Sequence[SampleGroup],
    held_out: Sequence[SampleGroup],
    params: Params,
    round: int,
    budget: int,
) -> tuple[Audit, dict[str, float]]:
    """The answer for the rewards of `train`, with its metrics; `budget`: bytes of gradients in memory."""
    mixed = [group for group in held_out if _is_mixed(group)]
    drawn = [group for group in random_order(train, round) if _is_mixed(group)][: len(mixed)]
    validation = Validation(samples_in(mixed), [advantage for group in mixed for advantage in group.advantages])
    tokens, samples = params.update.micro_batch_tokens, [*samples_in(drawn), *validation.samples]
    of_train = of_validation = None
    if drawn and mixed:
        temperature, checkpointing = params.search.temperature, params.update.checkpointing
        scorer = scorer_for(policy, samples, temperature, tokens, checkpointing=checkpointing)
        with explain_out_of_memory(tokens):
            scorer = with_constant_prompts(scorer, samples)
            cached = cache_validation_gradients(scorer, validation, budget)
            of_train, of_validation = (
                _concordance(scorer, groups, validation, cached, budget) for groups in (drawn, mixed)
            )
    audit = audit_of(of_train, of_validation, len(held_out))
    return audit, _metrics(audit, of_train, of_validation)


def _is_mixed(group: SampleGroup) -> bool:
    """Whether it has known rewards that differ."""
    return has_signal(known_rewards(group.rewards))


def _concordance(
    scorer: Scorer, groups: Sequence[SampleGroup], validation: Validation, cached: GradientPasses, budget: int
) -> Concordance | None:
    samples = samples_in(groups)
    passes = cached if cached.has_cached(samples) else GradientPasses(scorer, samples, budget)
    similarity = LocalSimilarity(validation, cached, leave_group_out=True, sharpness=SHARPNESS)
    while similarity.next_part():
        for block in passes:
            similarity.add(block)
    means = {row: x for part in all_gather(similarity.means()) for row, x in part.items()}
    return concordance(([means[row_of(s)] for s in group.samples], group.rewards) for group in groups)


def _metrics(audit: Audit, train: Concordance | None, validation: Concordance | None) -> dict[str, float]:
    numbers: dict[str, float] = {
        "audit/err": int(audit.answer == "rewards err"),
        "audit/right": int(audit.answer == "rewards look right"),
        "audit/problems_needed": audit.problems_needed,
    }
    for name, found in {"train": train, "validation": validation}.items():
        if found:
            numbers |= {f"audit/{name}_auc": found.auc, f"audit/{name}_auc_error": found.error}
            numbers[f"audit/{name}_groups"] = found.groups
    shares = {"fault_share": audit.share, "fault_share_low": audit.low, "fault_share_high": audit.high}
    return numbers | {f"audit/{name}": share for name, share in shares.items() if not isnan(share)}
