"""The backward pass of a training step over its micro-batches, in this process or a part of them in each of several."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TypeVar

from torch import Tensor

from tasks.model.cpu import operations as cpu
from tasks.model.cuda import operations as cuda
from tasks.model.device import for_device
from tasks.model.distributed.collectives import backward
from tasks.model.layers.fast_layers import fast_layers
from tasks.model.scoring.micro_batches import MicroBatch
from tasks.model.scoring.scorer import Scorer

SMALL_PASS = 2 * 10**9
"""Parameters times tokens of a micro-batch. In a smaller one, waking a second thread takes longer than its share of a
matrix product: docs/results/2026-11-27-benchmarks.md."""

Read = TypeVar("Read")


def add_gradient(
    scorer: Scorer,
    batches: Sequence[MicroBatch],
    loss_of: Callable[[MicroBatch], tuple[Tensor, Callable[[], Callable[[], Read]]]],
    deterministic: bool,
) -> list[Read]:
    """Add the gradient of Σ loss_of(batch) to the weights that the scorer trains; `loss_of` and result: `backward`."""
    parameters: int = sum(parameter.numel() for parameter in scorer.model.parameters())
    is_small = parameters * max((batch.tokens for batch in batches), default=0) < SMALL_PASS
    threads = cpu.torch_threads(1) if is_small else nullcontext()
    in_order = for_device(scorer.model.device, cpu=cpu.deterministic_operations, cuda=cuda.deterministic_operations)
    with fast_layers(scorer.model), in_order() if deterministic else nullcontext(), threads:
        return backward(scorer.trained, batches, loss_of)
