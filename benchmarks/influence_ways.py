"""Influence by Graft and by plain torch, as functions compared by `benchmarks.influence`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.step_sides import Shape as StepShape
from benchmarks.step_sides import model_of

if TYPE_CHECKING:
    from tasks.model.sample import Sample
    from tasks.model.scoring.scorer import Scorer

PROMPT = 32  # tokens of each row that are its prompt


@dataclass(frozen=True)
class Shape:
    """Size of the model and the batch."""

    rows: int
    tokens: int  # of a row, its prompt included
    rank: int
    hidden: int
    layers: int
    vocabulary: int


def scorer_of(shape: Shape, eager: bool = False) -> "Scorer":
    """A model of this shape; all rows are one micro-batch."""
    import torch

    from tasks.model.policy import attach_adapter
    from tasks.model.scoring.scorer import Scorer

    inner = shape.hidden * 11 // 4
    model = model_of(StepShape(PROMPT, False, 1, shape.vocabulary, shape.hidden, shape.layers, inner))
    if eager:
        model.set_attn_implementation("eager")
    model = attach_adapter(model, shape.rank, 16.0, 0).eval()
    with torch.no_grad():  # a fresh adapter's B is 0, and the gradient of its A
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.02)
    return Scorer(model, 0, 1.0, "rows", tokens=2 * shape.rows * shape.tokens)


def samples_of(shape: Shape, seed: int) -> "list[Sample]":
    """Random rows with advantages of both signs."""
    import random

    from tasks.model.sample import Sample

    rng = random.Random(seed)

    def drawn(length: int) -> tuple[int, ...]:
        return tuple(rng.randrange(3, shape.vocabulary) for _ in range(length))

    return [
        Sample(str(row), 0, drawn(PROMPT), drawn(shape.tokens - PROMPT), (), rng.choice([-1.0, 1.0]))
        for row in range(shape.rows)
    ]


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


def lean_pass(scorer: "Scorer", samples: "Sequence[Sample]") -> None:
    from tasks.model.layers.fast_layers import fast_layers

    with fast_layers(scorer.model):
        plain(scorer, samples)


def ours(scorer: "Scorer", samples: "Sequence[Sample]", validation: "Sequence[Sample]") -> list[float]:
    from tasks.objective.token_weights import TokenWeights
    from tasks.select.losses import Validation
    from tasks.select.tracin import influences

    averaging = TokenWeights("dapo", longest=1)
    loss = Validation(validation, [s.advantage for s in validation])
    return [float(s.influence or 0) for s in influences(scorer, samples, averaging, loss).each]


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


def rows_of(samples: "Sequence[Sample]") -> tuple[Any, Any]:
    """Rows for `rows_loss`: token ids [R, W], and what a row's log-probability is multiplied by [R]."""
    import torch

    ids = torch.tensor([[*s.prompt, *s.completion] for s in samples])
    return ids, torch.tensor([-s.advantage for s in samples]) / tokens_of(samples)


def rows_loss(scorer: "Scorer", samples: "Sequence[Sample]") -> Callable[[Any, Any, Any], Any]:
    """(LoRA factors, ids [R, W] or [W], scales [R] or []) → the loss, for torch.func and rows as long as these.

    Attention has to be eager and its mask made by hand.
    """
    import torch
    from torch.func import functional_call

    from tasks.model.scoring.logprobs import token_logprobs

    width = len(samples[0].prompt) + len(samples[0].completion)
    mask = torch.full((1, 1, width, width), torch.finfo(torch.float32).min).triu(1)
    positions = torch.arange(width)[None]

    def loss(trained: Any, ids: Any, scales: Any) -> Any:
        rows = ids.reshape(-1, width)
        given = {"input_ids": rows, "attention_mask": mask, "position_ids": positions, "use_cache": False}
        logits = functional_call(scorer.model, trained, (), given).logits[:, PROMPT - 1 : -1]
        return (token_logprobs(logits, rows[:, PROMPT:], 1.0).sum(1) * scales.reshape(-1)).sum()

    return loss


def vmap(scorer: "Scorer", samples: "Sequence[Sample]", validation: "Sequence[Sample]") -> list[float]:
    """torch.func's batch of gradients."""
    from torch.func import grad
    from torch.func import vmap as batched

    weights = weights_of(scorer)
    direction = dict(zip(weights, plain(scorer, validation), strict=True))
    own = batched(grad(rows_loss(scorer, samples)), in_dims=(None, 0, 0), chunk_size=8)(weights, *rows_of(samples))
    return [float(x) for x in sum(own[name].flatten(1) @ direction[name].flatten() for name in weights)]
