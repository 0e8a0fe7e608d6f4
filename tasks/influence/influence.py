"""TracIn at the policy that the update starts from: which samples push the way that validation asks for.

    L_i   = -A_i Σ_t log p_it / N        a sample's part of the GRPO loss while the ratio is 1; N: all their tokens
    L_val = -Σ_j A_j Σ_t log p_jt / M    the same over the validation samples; M: all their tokens
    influence_i = ⟨∇L_i, ∇L_val⟩         over the LoRA factors

Both are losses, so a step θ - η ∇L_i changes L_val by -η · influence_i: above 0 helps. The *value* of L_val has no
meaning, its sign neither: advantages are centred. Left out: clipping (inactive while the ratio is 1), the KL term,
and Adam's rescaling of the step.

With the n training samples as their own validation, mean influence = ‖∇L_val‖² / n ≥ 0 whatever they are: every
sample votes for itself too, and that vote is most of its influence in a batch of unlike problems.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.influence.ghost import Direction, ghost_products, lora_factors
from tasks.policy.samples import Sample, merged
from tasks.policy.tree_batch import Scorer, Tree, pack, row_logprobs

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Scored:
    """A sample's influence and the norm of its gradient."""

    influence: float
    gradient_norm: float


def tokens_of(samples: Sequence[Sample]) -> int:
    """Completion tokens, at least 1."""
    return max(sum(len(s.completion) for s in samples), 1)


def validation_gradient(scorer: Scorer, samples: Sequence[Sample]) -> Direction:
    """∇L_val over the LoRA factors; zero where no sample has a signal."""
    import torch

    tokens = tokens_of(samples)
    modules = lora_factors(scorer.model)
    weights = [module.weight for module in modules.values()]
    total = [torch.zeros_like(weight) for weight in weights]
    for trees in scorer.batches(merged([s for s in samples if s.advantage != 0])):
        logprobs, _ = scorer.logprobs(trees)
        rows = [s for tree in trees for s in tree]
        counts = logprobs.new_tensor([s.count for s in rows])
        loss = (counts * policy_losses(logprobs, rows, tokens)).sum()
        for sum_, gradient in zip(total, torch.autograd.grad(loss, weights), strict=True):
            sum_ += gradient
    return dict(zip(modules, total, strict=True))


def influences(scorer: Scorer, samples: Sequence[Sample], direction: Direction) -> list[Scored]:
    """⟨∇L_i, direction⟩ and ‖∇L_i‖ of each sample, in order; 0 and 0, with no computing, where its advantage is 0.

    Each sample has a padded row of its own here: with a shared prompt its gradient could not be told from the others'.
    """
    tokens = tokens_of(samples)
    scored = {_row(s): Scored(0.0, 0.0) for s in samples}
    for trees in _progress(list(pack([[s] for s in merged([s for s in samples if s.advantage != 0])]))):
        rows = [s for tree in trees for s in tree]

        def losses(rows: list[Sample] = rows) -> "Tensor":
            logprobs, _ = row_logprobs(scorer.model, rows, scorer.pad, scorer.temperature)
            return policy_losses(logprobs, rows, tokens)

        products, norms = ghost_products(scorer.model, direction, losses)
        for row, product, norm in zip(rows, products.tolist(), norms.tolist(), strict=True):
            scored[_row(row)] = Scored(product, norm)
    return [scored[_row(s)] for s in samples]


def _row(sample: Sample) -> tuple[str, tuple[int, ...], float]:
    return sample.problem_id, sample.completion, sample.advantage


def policy_losses(logprobs: "Tensor", samples: Sequence[Sample], tokens: int) -> "Tensor":
    """-A_i Σ_t log p_it / tokens for each of R samples; logprobs [R, C], 0 where masked → [R]."""
    return -logprobs.new_tensor([s.advantage for s in samples]) * logprobs.sum(1) / tokens


def _progress(batches: Sequence[list[Tree]]) -> Iterable[list[Tree]]:
    from rich.console import Console
    from rich.progress import track

    return track(batches, "influence", console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
