"""Gradients and influence by plain autograd, of which the benchmarks measure Graft's as a multiple."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.model.sample import Sample
    from tasks.model.scoring.scorer import Scorer


def tokens_of(samples: "Sequence[Sample]") -> int:
    """Denominator of the loss of these rows."""
    return sum(len(s.completion) for s in samples)


def losses_of(scorer: "Scorer", samples: "Sequence[Sample]", denominator: int) -> Any:
    """-A_i Σ_t log p_it / denominator of each row."""
    from tasks.model.scoring.micro_batches import MicroBatch

    logprobs = scorer.score(MicroBatch("rows", [[s] for s in samples])).logprobs
    return -logprobs.sum(1) * logprobs.new_tensor([s.advantage for s in samples]) / denominator


def weights_of(scorer: "Scorer") -> dict[str, Any]:
    return {name: weight for name, weight in scorer.model.named_parameters() if weight.requires_grad}


def plain(scorer: "Scorer", samples: "Sequence[Sample]") -> list[Any]:
    """The batch's gradient."""
    import torch

    denominator = tokens_of(samples)
    return list(torch.autograd.grad(losses_of(scorer, samples, denominator).sum(), list(weights_of(scorer).values())))


def loop(scorer: "Scorer", samples: "Sequence[Sample]", validation: "Sequence[Sample]") -> list[float]:
    """A backward pass for each row."""
    import torch

    denominator, weights = tokens_of(samples), list(weights_of(scorer).values())
    direction = plain(scorer, validation)
    found = []
    for sample in samples:
        own = torch.autograd.grad(losses_of(scorer, [sample], denominator).sum(), weights)
        found.append(sum(float((g.double() * d.double()).sum()) for g, d in zip(own, direction, strict=True)))
    return found
