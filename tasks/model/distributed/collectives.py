"""Data parallelism of a stage: each process has all trained weights and computes a part of the work.

The work is ordered by length and dealt out in turn, so that all processes have about equally much. Results are
gathered, so that every process continues with the same numbers. More processes take less time, and less memory where
the base is sharded (sharding.py).

Outside a process group (`update.processes: 1`) this process does everything.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from tasks.model.cuda.cards import use_card
from tasks.model.device import device_for, for_device

Piece = TypeVar("Piece")
Gathered = TypeVar("Gathered")


TIMEOUT = timedelta(days=1)
"""How long a process waits for the others; it is ended when another one has failed."""


@contextmanager
def process_group(store: Path, rank: int, size: int) -> Iterator[None]:
    """In the block this process is number `rank` of a group of `size`: nccl with a GPU each, else gloo.

    The processes find each other through the file `store`, which must be new.
    """
    backend = for_device(device_for(), cpu=lambda _: "gloo", cuda=use_card)(rank)
    file = torch.distributed.FileStore(str(store), size)  # type: ignore[attr-defined]
    file.set_timeout(TIMEOUT)
    torch.distributed.init_process_group(backend, store=file, rank=rank, world_size=size, timeout=TIMEOUT)
    yield
    torch.distributed.destroy_process_group()  # not after an error: it could wait for processes that wait for this one


def rank() -> int:
    """Rank of this process; rank 0 writes and logs."""
    return torch.distributed.get_rank() if _is_distributed() else 0


def all_gather(value: Gathered) -> list[Gathered]:
    """The value of each process, by rank. Tensors must be on the CPU."""
    if not _is_distributed():
        return [value]
    values: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(values, value)
    return values


def local_part(work: Sequence[Piece]) -> Sequence[Piece]:
    """The part of the work that this process computes."""
    return work[rank() :: world_size()]


def gather_parts(results: Sequence[Gathered]) -> list[Gathered]:
    """The results of all processes for their parts, in the order of the work."""
    parts = all_gather(list(results))
    return [parts[place % len(parts)][place // len(parts)] for place in range(sum(map(len, parts)))]


def all_reduce_sum(parts: Sequence[Tensor]) -> list[Tensor]:
    """The sum of each tensor over the processes; all on one device and of one type, in one message."""
    if not _is_distributed():
        return list(parts)
    sent = torch.cat([part.flatten() for part in parts])
    torch.distributed.all_reduce(sent)
    sums = torch.split(sent, [part.numel() for part in parts])
    return [total.view_as(part) for total, part in zip(sums, parts, strict=True)]


def in_step(model: Any, batches: Sequence[Piece], spare: Piece | None) -> Iterator[tuple[Piece, bool]]:
    """This process's batches, with True. Where the model is sharded, then `spare` with False, until all processes have
    as many: its results do not count, but each process needs the others to gather a layer.

    `spare` is None only where no process has a batch.
    """
    missing = 0
    if is_sharded(model):
        missing = max(all_gather(len(batches))) - len(batches)
    yield from ((batch, True) for batch in batches)
    for _ in range(missing):
        assert spare is not None
        yield spare, False


def local_steps(model: Any, batches: Sequence[Piece]) -> Iterator[tuple[Piece, bool]]:
    """The part of the batches that this process computes, as `in_step`."""
    return in_step(model, local_part(batches), batches[0] if batches else None)


def is_sharded(model: Any) -> bool:
    """Whether the processes hold parts of the model."""
    if not _is_distributed():
        return False
    from torch.distributed.fsdp import FSDPModule

    return any(isinstance(module, FSDPModule) for module in model.modules())


def backward(
    model: Any,
    batches: Sequence[Piece],
    loss_of: Callable[[Piece], tuple[Tensor, Callable[[], Callable[[], Gathered]]]],
) -> list[Gathered]:
    """Add the gradient of Σ loss_of(batch) over all processes to the model's weights in each process.

    Gradients are added up once, after the last micro-batch. `loss_of` returns a micro-batch's loss and a function to
    call after the backward pass. That returns one that reads its results from the device, to call after the last
    micro-batch: so the CPU prepares the next micro-batch while a GPU computes. Returns these results, in the order of
    the micro-batches.
    """
    results = []
    for batch, counts in local_steps(model, batches):
        loss, result = loss_of(batch)
        (loss if counts else 0 * loss).backward()  # type: ignore[no-untyped-call]
        if counts:
            results.append(result())
    if _is_distributed():
        _sum_gradients([weight for weight in model.parameters() if weight.requires_grad])
    return gather_parts([read() for read in results])


def _sum_gradients(weights: Sequence[Tensor]) -> None:
    """Over all processes. A weight without a gradient in any of them stays without: an expert of a mixture that no
    token was routed to."""
    used = [any(flags) for flags in zip(*all_gather([weight.grad is not None for weight in weights]), strict=True)]
    learned = [weight for weight, is_used in zip(weights, used, strict=True) if is_used]
    if not learned:
        return
    parts = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in learned]
    for weight, total in zip(learned, all_reduce_sum(parts), strict=True):
        weight.grad = total.to(weight.dtype)


def world_size() -> int:
    """Processes that compute this stage."""
    return torch.distributed.get_world_size() if _is_distributed() else 1


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
