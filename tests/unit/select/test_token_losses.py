"""Influence of samples whose loss is no multiple of Σ log p: old behaviour, clipping, KL, entropy.

Against a backward pass for each sample, in float64 (gpt2: the norms of other architectures are in float32).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import MicroBatch
from tasks.model.scoring.token_scores import TokenScores
from tasks.objective.losses import token_losses
from tasks.objective.recorded_logprobs import Logprobs, pad_logprobs, sample_key
from tasks.objective.surrogates import Objective
from tasks.objective.token_weights import TokenWeights
from tasks.select.losses import loss_denominator
from tasks.select.tracin import Estimator, influences
from tasks.update.gradient import objective_of
from tests.support.influence import (
    BY_TOKEN,
    flat,
    gradient_of,
    score_rows,
    scorer_of,
)
from tests.support.plain_scores import sample_logprobs
from tests.support.policies import MakeSamples
from tests.support.update_params import grpo_params
from tests.support.validation import advantage_validation

OBJECTIVES = {
    "clipped": {"loss": "dapo"},
    "KL": {"loss": "grpo", "beta": 0.05},
    "sequence": {"loss": "grpo", "importance": "sequence"},
    "entropy": {"loss": "cispo", "entropy": 0.02, "beta": 0.05, "kl": "k2", "kl_correction": True},
}


@dataclass
class Losses:
    """GRPO's, of samples that another policy wrote; `seen` are those that were computed."""

    behaviour: Logprobs
    reference: Logprobs
    objective: Objective
    seen: set[tuple[str, int]]
    clipped: int = 0

    def __call__(self, samples: Sequence[Sample], scored: TokenScores) -> torch.Tensor:
        self.seen |= {sample_key(s) for s in samples}
        logprobs, beta, entropy = scored.logprobs, self.objective.beta, self.objective.entropy
        found = token_losses(
            logprobs,
            pad_logprobs(self.behaviour, samples, logprobs),
            pad_logprobs(self.reference, samples, logprobs) if beta else None,
            scored.entropies if entropy else None,
            logprobs.new_tensor([s.advantage for s in samples]),
            scored.mask,
            self.objective,
        )
        self.clipped += int(found.clipped.sum())
        return found.loss


def losses_of(policy: Policy, samples: list[Sample], noise: float = 0.4, **objective: Any) -> Losses:
    """Behaviour and reference are the policy's log-probabilities with this much noise."""
    generator = torch.Generator().manual_seed(5)

    def near() -> Logprobs:
        with torch.no_grad():
            rows = {sample_key(s): sample_logprobs(policy.model, [s], 0.7)[0] for s in samples}
        return {k: row + noise * torch.randn(row.shape, generator=generator).to(row) for k, row in rows.items()}

    return Losses(near(), near(), objective_of(grpo_params(**objective)), set())


def loss_rows(policy: Policy, samples: list[Sample], averaging: TokenWeights, losses: Losses) -> torch.Tensor:
    """∇L_i of each sample alone, [n, P]; 0 where it has no signal."""
    rows = []
    for s in samples:
        scored = scorer_of(policy).score(MicroBatch("rows", [[s]]))
        loss = losses([s], scored).sum() * averaging.weight(len(s.completion)) / loss_denominator(samples, averaging)
        rows.append(gradient_of(policy, loss) * bool(s.advantage))
    return torch.stack(rows)


def mixed(samples: list[Sample]) -> list[Sample]:
    """Some without a signal, and one that is written twice, by different policies."""
    silent = [replace(s, advantage=0.0) if place % 5 == 2 else s for place, s in enumerate(samples)]
    return [*silent, replace(silent[-1], member=99)]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_is_the_product_of_the_losses_gradients(name: str, exact: Policy, make_samples: MakeSamples) -> None:
    samples, others = mixed(make_samples(problems=5, seed=3)), make_samples(problems=4, seed=4)
    losses, averaging = losses_of(exact, samples, **OBJECTIVES[name]), TokenWeights(OBJECTIVES[name]["loss"], 64)
    others = [replace(s, advantage=float((-1) ** place * (place % 4))) for place, s in enumerate(others)]
    validation = advantage_validation(others)
    found = influences(scorer_of(exact), samples, averaging, validation, Estimator(budget=200_000), token_losses=losses)
    assert losses.seen == {sample_key(s) for s in samples if s.advantage}
    assert losses.clipped or name == "entropy"

    own, theirs = loss_rows(exact, samples, averaging, losses), score_rows(exact, others)
    c = torch.tensor([-s.advantage for s in others], dtype=torch.float64) / loss_denominator(others, BY_TOKEN)
    products = own @ (c @ theirs)
    for place, one in enumerate(found.samples):
        size = 1e-10 * float(products.abs().max())
        assert one.influence == one.product == pytest.approx(float(products[place]), rel=1e-9, abs=size)
        assert one.gradient_norm == pytest.approx(float(own[place].norm()), rel=1e-9, abs=1e-15)
    assert (flat(found.train_gradient.values()) - own.sum(0)).norm() <= 1e-9 * own.sum(0).norm()


def test_a_measure_that_compares_completions_by_their_scores_is_refused(policy: Policy, samples: list[Sample]) -> None:
    given, losses = (scorer_of(policy), samples, BY_TOKEN, advantage_validation(samples)), losses_of(policy, samples)
    with pytest.raises(GraftError, match=r"similarity: local compares .* token losses .*; set it to dot"):
        influences(*given, Estimator("local"), token_losses=losses)
