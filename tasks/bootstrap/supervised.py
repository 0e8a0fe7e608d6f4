"""Supervised training of a model on (prompt, completion) pairs: of a policy from scratch, and the warm start of a base.

One loop with two losses. A base learns completions alone, by the scorer of the update: packed rows, micro-batches. A
model from scratch learns to read as well, by a small loss on the prompts, which the scorer does not compute; its rows
are short and padded.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from tasks.core.progress import show_progress
from tasks.core.terminal import print_remark
from tasks.errors import GraftError
from tasks.model.sample import Sample
from tasks.model.scoring.backward import add_gradient
from tasks.model.scoring.layouts import collate
from tasks.model.scoring.micro_batches import MicroBatch
from tasks.model.scoring.scorer import Scorer
from tasks.model.training_checkpoint import Checkpoint, TrainingState
from tasks.seeds import derive_seed

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
    model: Any,
    examples: Sequence[TrainingExample],
    epochs: int,
    learning_rate: float,
    batch: int,
    pad: int,
    seed: int,
    scorer: Scorer | None = None,
    deterministic: bool = True,
    checkpoint: Checkpoint | None = None,
) -> tuple[float, float]:
    """Train `model` in place with AdamW, linear warm-up and cosine decay.

    Returns the last epoch's mean loss, and tokens of prompts and completions a second. `scorer`: of the update; None:
    the loss of a model from scratch. With a checkpoint it goes on where an earlier training of the same arguments was
    ended. Raises GraftError, before a weight takes a wrong value, where a loss or a gradient is not finite.
    """
    seeds = [derive_seed(seed, "warm-up", epoch) for epoch in range(epochs)]
    plan = [rows for seed in seeds for rows in _batches(len(examples), batch, seed)]
    steps = len(plan)

    def rate(step: int) -> float:
        rise = max(round(steps * WARMUP), 1)
        if step < rise:
            return (step + 1) / rise
        return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(steps - rise, 1)))

    backward = partial(_backward_scored, scorer, deterministic) if scorer else partial(_backward_padded, model, pad)
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    optimiser = torch.optim.AdamW([*weights.values()], lr=learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
    training = TrainingState(weights, optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, rate))
    if checkpoint and (state := checkpoint.load()):
        training.restore(state)
        print_remark(f"bootstrap: goes on after {len(training.rows)} of {steps} steps that one cut short has left")
    done, tokens, speed, started = len(training.rows), 0, 0.0, time.monotonic()
    with show_progress("warm-up", steps, "steps", done) as advance:
        for rows in plan[done:]:
            learnt = [examples[i] for i in rows]
            loss = backward(learnt)
            if not math.isfinite(loss + float(torch.nn.utils.clip_grad_norm_(weights.values(), 1.0))):
                place = f"bootstrap: step {len(training.rows) + 1} of {steps}"
                raise GraftError(f"{place}: its loss or gradient is not finite; lower bootstrap.learning_rate")
            optimiser.step()
            training.schedule.step()
            optimiser.zero_grad()
            training.rows.append({"loss": loss})
            if checkpoint:
                checkpoint.keep(training)
            tokens += sum(len(example.prompt) + len(example.completion) for example in learnt)
            speed = tokens / max(time.monotonic() - started, 1e-9)
            advance(note=f"{speed:.0f} tokens/s")
    losses = [row["loss"] for row in training.rows[-(steps // epochs) :]]
    return sum(losses) / len(losses), speed


def _batches(count: int, batch: int, seed: int) -> list[list[int]]:
    import numpy as np

    order = np.random.Generator(np.random.Philox(seed)).permutation(count).tolist()
    return [order[start : start + batch] for start in range(0, count, batch)]


def samples_of(examples: Sequence[TrainingExample]) -> list[Sample]:
    """The examples as an update's samples."""
    return [Sample(str(place), 0, (*e.prompt,), (*e.completion,), (), 1.0) for place, e in enumerate(examples)]


def _backward_scored(scorer: Scorer, deterministic: bool, examples: Sequence[TrainingExample]) -> float:
    """Add the gradient of the completions' mean cross-entropy by token to the weights, and return that."""
    count = sum(len(example.completion) for example in examples)

    def loss_of(batch: MicroBatch) -> tuple[Tensor, Callable[[], Callable[[], float]]]:
        loss = -scorer.score(batch).logprobs.sum() / count  # 0 where padded
        return loss, lambda: loss.detach().item

    return sum(add_gradient(scorer, scorer.batches(samples_of(examples)), loss_of, deterministic))


def _backward_padded(model: Any, pad: int, examples: Sequence[TrainingExample]) -> float:
    loss = _loss(model, examples, pad)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item()


def _loss(model: Any, examples: Sequence[TrainingExample], pad: int) -> Tensor:
    """Cross-entropy of the completions' tokens, plus `PROMPT_WEIGHT` times that of the prompts'."""
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
