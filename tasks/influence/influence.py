"""TracIn at the policy that the update starts from: which samples push the way that validation asks for.

    L_i   = -A_i w_i Σ_t log p_it / N          a sample's part of the GRPO loss while the ratio is 1
    L_val = -Σ_j A_j w_j Σ_t log p_jt / M      the same over the validation samples
    influence_i = ⟨∇L_i, ∇L_val⟩               over the LoRA factors

w is 1, N and M are all their tokens; where `grpo.loss` gives completions or a constant the weight, they are what
tasks/policy/averaging.py says. At ratio 1 no more is left of the losses: every surrogate, with the ratio of tokens
or of completions, has the gradient -A ∇ log p there.

Both are losses, so a step θ - η ∇L_i changes L_val by -η · influence_i: above 0 helps. The *value* of L_val has no
meaning, its sign neither: advantages are centred. Left out: clipping (inactive while the ratio is 1), the KL term,
the entropy bonus, and Adam's rescaling of the step.

With the n training samples as their own validation, mean influence = ‖∇L_val‖² / n ≥ 0 whatever they are: every
sample votes for itself too, and that vote is most of its influence in a batch of unlike problems.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tasks.influence.ghost import Direction, ghost_products, lora_factors
from tasks.policy.averaging import Averaging
from tasks.policy.packing import MicroBatch, packed
from tasks.policy.samples import Sample, merged
from tasks.policy.scorer import Scorer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Scored:
    """A sample's influence and the norm of its gradient."""

    influence: float | None
    gradient_norm: float | None


NOT_MEASURED = Scored(None, None)


def denominator_of(samples: Sequence[Sample], averaging: Averaging) -> int:
    """What the samples' losses are divided by, at least 1."""
    return max(averaging.denominator([len(s.completion) for s in samples]), 1)


def validation_gradient(scorer: Scorer, samples: Sequence[Sample], averaging: Averaging) -> Direction:
    """∇L_val over the LoRA factors; zero where no sample has a signal."""
    import torch

    denominator = denominator_of(samples, averaging)
    modules = lora_factors(scorer.model)
    weights = [module.weight for module in modules.values()]
    total = [torch.zeros_like(weight) for weight in weights]
    for batch in scorer.batches(merged([s for s in samples if s.advantage != 0])):
        logprobs, rows = scorer.score(batch).logprobs, batch.samples
        counts = logprobs.new_tensor([s.count for s in rows])
        loss = (counts * policy_losses(logprobs, rows, averaging, denominator)).sum()
        for sum_, gradient in zip(total, torch.autograd.grad(loss, weights), strict=True):
            sum_ += gradient
    return dict(zip(modules, total, strict=True))


def influences(scorer: Scorer, samples: Sequence[Sample], direction: Direction, averaging: Averaging) -> list[Scored]:
    """⟨∇L_i, direction⟩ and ‖∇L_i‖ of each sample, in order; 0 and 0, with no computing, where its advantage is 0.

    Each sample has a padded row of its own here: with a shared prompt its gradient could not be told from the others'.
    """
    denominator = denominator_of(samples, averaging)
    scored = {_row(s): Scored(0.0, 0.0) for s in samples}
    for batch in _progress(packed("rows", merged([s for s in samples if s.advantage != 0]), scorer.tokens)):
        losses = partial(_losses, scorer, batch, averaging, denominator)
        products, norms = ghost_products(scorer.model, direction, losses)
        for row, product, norm in zip(batch.samples, products.tolist(), norms.tolist(), strict=True):
            scored[_row(row)] = Scored(product, norm)
    return [scored[_row(s)] for s in samples]


def _losses(scorer: Scorer, batch: MicroBatch, averaging: Averaging, denominator: int) -> "Tensor":
    return policy_losses(scorer.score(batch).logprobs, batch.samples, averaging, denominator)


def _row(sample: Sample) -> tuple[str, tuple[int, ...], float]:
    return sample.problem_id, sample.completion, sample.advantage


def policy_losses(logprobs: "Tensor", samples: Sequence[Sample], averaging: Averaging, denominator: int) -> "Tensor":
    """-A_i w_i Σ_t log p_it / denominator for each of R samples; logprobs [R, C], 0 where masked → [R]."""
    gains = [s.advantage * averaging.weight(len(s.completion)) for s in samples]
    return -logprobs.new_tensor(gains) * logprobs.sum(1) / denominator


def _progress(batches: Sequence[MicroBatch]) -> Iterable[MicroBatch]:
    from rich.console import Console
    from rich.progress import track

    return track(batches, "influence", console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
