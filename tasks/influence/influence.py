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
sample votes for itself too, which is most of its influence in a batch of unlike problems, unless it is left out.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.influence.gram import products, squared_norms, total, weighted_sum
from tasks.influence.sample_gradients import Direction, SampleGradients, lora_factors, sample_gradients
from tasks.policy.averaging import Averaging
from tasks.policy.lean import lean
from tasks.policy.packing import MicroBatch, packed
from tasks.policy.samples import Sample, merged
from tasks.policy.scorer import Scorer

if TYPE_CHECKING:
    from torch import Tensor

BUDGET = 2**30
"""Bytes that gradients of single samples may take."""


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
    direction = [torch.zeros_like(weight) for weight in weights]
    with lean(scorer.model):
        for batch in scorer.batches(merged([s for s in samples if s.advantage != 0])):
            sums = scorer.score(batch).logprobs.sum(1)
            loss = sums @ _coefficients(batch.samples, averaging, denominator, counted=True).to(sums)
            for summed, gradient in zip(direction, torch.autograd.grad(loss, weights), strict=True):
                summed += gradient
    return dict(zip(modules, direction, strict=True))


def influences(
    scorer: Scorer,
    samples: Sequence[Sample],
    validation: Sequence[Sample] | None,
    averaging: Averaging,
    exclude_self: bool = False,
    budget: int = BUDGET,
) -> list[Scored]:
    """⟨∇L_i, ∇L_val⟩ and ‖∇L_i‖ of each sample, in order; 0 and 0, with no computing, where its advantage is 0.

    `validation` None: the samples are their own, in one pass where their gradients fit in `budget` bytes, and with
    `exclude_self` none votes for itself. Each sample has a padded row of its own here: with a shared prompt its
    gradient could not be told from the others'.
    """
    denominator = denominator_of(samples, averaging)
    rows = merged([s for s in samples if s.advantage != 0])
    passes: Iterable[tuple[MicroBatch, SampleGradients]] = (
        (batch, _scores(scorer, batch)) for batch in _progress(_batches(scorer, rows, budget))
    )
    if validation is not None:
        direction = validation_gradient(scorer, validation, averaging)
    elif _bytes(scorer.model) * len(rows) <= budget:
        passes = list(passes)
        counted = [(scores, _coefficients(batch.samples, averaging, denominator, True)) for batch, scores in passes]
        direction = total([weighted_sum(scores, coefficients) for scores, coefficients in counted])
    else:
        direction = validation_gradient(scorer, samples, averaging)
    scored = {_row(s): Scored(0.0, 0.0) for s in samples}
    for batch, scores in passes:
        own = _coefficients(batch.samples, averaging, denominator)
        squares = squared_norms(scores)
        found = own * products(scores, direction)
        if validation is None and exclude_self:
            found -= own.square() * squares
        norms = own.abs() * squares.sqrt()
        for sample, influence, norm in zip(batch.samples, found.tolist(), norms.tolist(), strict=True):
            scored[_row(sample)] = Scored(influence, norm)
    return [scored[_row(s)] for s in samples]


def _batches(scorer: Scorer, samples: Sequence[Sample], budget: int) -> list[MicroBatch]:
    """Rows of so many samples that their gradients fit in the budget, or of one."""
    most = max(budget // _bytes(scorer.model), 1)
    return [
        MicroBatch("rows", batch.groups[start : start + most])
        for batch in packed("rows", samples, scorer.tokens)
        for start in range(0, len(batch.groups), most)
    ]


def _bytes(model: Any) -> int:
    """Of the gradient of one sample."""
    weights = [module.weight for module in lora_factors(model).values()]
    return sum(weight.numel() * max(weight.itemsize, 4) for weight in weights)


def _scores(scorer: Scorer, batch: MicroBatch) -> SampleGradients:
    """∇ Σ_t log p_it of each sample."""
    return sample_gradients(scorer.model, lambda: scorer.score(batch).logprobs.sum(1))


def _coefficients(samples: Sequence[Sample], averaging: Averaging, denominator: int, counted: bool = False) -> "Tensor":
    """-A_i w_i / denominator [R], in float64: what a sample's score weighs in a loss; `counted` for all equal ones."""
    import torch

    gains = [s.advantage * averaging.weight(len(s.completion)) * (s.count if counted else 1) for s in samples]
    return -torch.tensor(gains, dtype=torch.float64) / denominator


def _row(sample: Sample) -> tuple[str, tuple[int, ...], float]:
    return sample.problem_id, sample.completion, sample.advantage


def _progress(batches: Sequence[MicroBatch]) -> Iterable[MicroBatch]:
    from rich.console import Console
    from rich.progress import track

    return track(batches, "influence", console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
