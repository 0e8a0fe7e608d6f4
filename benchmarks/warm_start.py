"""Tokens a processor second of a warm start: Graft's training of a base, and a plain loop with padded rows.

Both train the same adapter on the same demonstrations, by turns in one process with one thread: the plain loop as
transformers' documentation writes it, padded to the longest of a batch, with the loss of the labels.
"""

import random
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.step_sides import ALPHA, PAD, Shape, model_of, tokenizer_of
from tasks.bootstrap.training import BASE_BATCH

if TYPE_CHECKING:
    from tasks.bootstrap.supervised import TrainingExample

RATE = 5e-4
PROMPT, COMPLETION = (45, 83), (17, 26)
"""Tokens of the shortest and the longest, as of the preset `smollm2`."""


def examples_of(shape: Shape, count: int) -> "list[TrainingExample]":
    """Demonstrations of random tokens."""
    from tasks.bootstrap.supervised import TrainingExample

    rng = random.Random(0)

    def tokens(shortest: int, longest: int) -> list[int]:
        return [rng.randrange(3, shape.vocabulary) for _ in range(rng.randint(shortest, longest))]

    return [TrainingExample(tokens(*PROMPT), tokens(*COMPLETION)) for _ in range(count)]


def plain_training(model: Any, examples: "Sequence[TrainingExample]") -> None:
    """A step for each batch of padded rows, whose prompts' labels are left out."""
    import torch

    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=RATE)
    for start in range(0, len(examples), BASE_BATCH):
        rows = [(e.prompt, e.completion) for e in examples[start : start + BASE_BATCH]]
        longest = max(len(prompt) + len(completion) for prompt, completion in rows)
        ids, labels, seen = torch.full((3, len(rows), longest), PAD)
        labels.fill_(-100)
        for row, (prompt, completion) in enumerate(rows):
            size = len(prompt) + len(completion)
            ids[row, :size], seen[row, :size] = torch.tensor(prompt + completion), 1
            labels[row, len(prompt) : size] = torch.tensor(completion)
        model(input_ids=ids, attention_mask=seen, labels=labels, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        optimiser.zero_grad()


def warm_start_speeds(shape: Shape, turns: int = 3, steps: int = 3) -> dict[str, float]:
    """Median of the turns, the first left out: `warm_start_tokens_per_second` and that of the plain loop."""
    import torch

    from tasks.bootstrap.supervised import samples_of, train_supervised
    from tasks.model.checkpoints.lora import attach_adapter
    from tasks.model.policy import Policy
    from tasks.model.scoring.scorer import scorer_for

    torch.set_num_threads(1)
    examples = examples_of(shape, steps * BASE_BATCH)
    policy = Policy(attach_adapter(model_of(shape), shape.rank, ALPHA, 0), tokenizer_of(shape), "", "scratch")
    scorer = scorer_for(policy, samples_of(examples), 1.0, shape.micro_batch_tokens)
    sides: dict[str, Callable[[], Any]] = {
        "warm_start": lambda: train_supervised(policy.model, examples, 1, RATE, BASE_BATCH, PAD, 0, scorer),
        "plain_loop": lambda: plain_training(policy.model, examples),
    }
    tokens = sum(len(e.prompt) + len(e.completion) for e in examples)
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(1 + turns):
        for name, train in sides.items():
            started = time.process_time()
            train()
            speeds[name].append(tokens / (time.process_time() - started))
    return {f"{name}_tokens_per_second": median(of_turns[1:]) for name, of_turns in speeds.items()}
