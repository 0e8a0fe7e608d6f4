"""Supervised training of a model on (prompt, completion) pairs, for a policy from scratch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tasks.core.progress import show_progress
from tasks.model.scoring.layouts import collate
from tasks.seeds import derive_seed

if TYPE_CHECKING:
    from torch import Tensor

PASSES, FEWEST_STEPS = 8, 150
"""Least passes and steps with `epochs: auto`: eight passes over a few dozen demonstrations are too few steps."""

WARMUP = 0.05  # share of the steps over which the learning rate rises
PROMPT_WEIGHT = 0.1  # a small loss on the prompt teaches the model to read words


@dataclass(frozen=True)
class TrainingExample:
    """Token ids of a prompt and of the completion that solves it."""

    prompt: list[int]
    completion: list[int]


def epochs_for(epochs: int | Literal["auto"], batches: int) -> int:
    """The number of passes over the demonstrations, each of `batches` steps. `epochs` is the param."""
    return max(PASSES, -(-FEWEST_STEPS // batches)) if epochs == "auto" else epochs


def train_supervised(
    model: Any, examples: Sequence[TrainingExample], epochs: int, learning_rate: float, batch: int, pad: int, seed: int
) -> float:
    """Train `model` in place with AdamW, linear warm-up and cosine decay; returns the last epoch's mean loss."""
    import math

    import torch

    steps = epochs * -(-len(examples) // batch)

    def rate(step: int) -> float:
        rise = max(round(steps * WARMUP), 1)
        if step < rise:
            return (step + 1) / rise
        return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(steps - rise, 1)))

    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    model.train()
    losses: list[float] = []
    with show_progress("warm-up", epochs, "epochs") as advance:
        for epoch in range(epochs):
            losses = []
            for rows in _batches(len(examples), batch, derive_seed(seed, "warm-up", epoch)):
                loss = _loss(model, [examples[i] for i in rows], pad)
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                optimiser.zero_grad()
                losses.append(loss.item())
            advance()
    model.eval()
    return sum(losses) / len(losses)


def _batches(count: int, batch: int, seed: int) -> list[list[int]]:
    import numpy as np

    order = np.random.Generator(np.random.Philox(seed)).permutation(count).tolist()
    return [order[start : start + batch] for start in range(0, count, batch)]


def _loss(model: Any, examples: Sequence[TrainingExample], pad: int) -> "Tensor":
    """Cross-entropy of the completions' tokens, plus `PROMPT_WEIGHT` times that of the prompts'."""
    import torch

    rows = collate([e.prompt for e in examples], [e.completion for e in examples], pad, model.device)
    logits = model(
        input_ids=rows.ids, attention_mask=rows.attention, position_ids=rows.positions, use_cache=False
    ).logits[:, :-1]
    targets = rows.ids[:, 1:]
    nll = torch.nn.functional.cross_entropy(logits.transpose(1, 2).float(), targets, reduction="none")
    real = (rows.attention[:, 1:] * rows.attention[:, :-1]).float()
    weight = real * PROMPT_WEIGHT
    weight[:, -rows.mask.shape[1] :] = rows.mask.float()
    return (nll * weight).sum() / rows.mask.sum()
