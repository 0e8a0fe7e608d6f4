"""Data parallelism of a stage: each process has the full model and computes a part of the work.

The work is ordered by length and dealt out in turn, so that all processes have about equally much. Results are
gathered, so that every process continues with the same numbers. More processes take less time, not less memory.

Outside a process group (`grpo.processes: 1`) this process does everything.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tasks.model.distributed.safe_serialization import deserialize, serialize

if TYPE_CHECKING:
    from torch import Tensor

Batch = TypeVar("Batch")
Value = TypeVar("Value")


TIMEOUT = timedelta(days=1)
"""How long a process waits for the others; torchrun ends it when another one has failed."""


@contextmanager
def process_group(store: Path) -> Iterator[None]:
    """In the block this process is in the group that torchrun has started: nccl with a GPU each, else gloo.

    The processes find each other through the file `store`, which must be new.
    """
    import torch

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    file = torch.distributed.FileStore(str(store), size)  # type: ignore[attr-defined]
    file.set_timeout(TIMEOUT)
    torch.distributed.init_process_group(
        "nccl" if cuda else "gloo", store=file, rank=rank, world_size=size, timeout=TIMEOUT
    )
    yield
    torch.distributed.destroy_process_group()  # not after an error: it could wait for processes that wait for this one


def rank() -> int:
    """Rank of this process; rank 0 writes and logs."""
    import torch

    return torch.distributed.get_rank() if _is_distributed() else 0


def all_gather(value: Value) -> list[Value]:
    """The value of each process, by rank, without pickle (safe_serialization.py). Tensors must be on the CPU."""
    import torch

    if not _is_distributed():
        return [value]
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    sent = torch.frombuffer(bytearray(serialize(value)), dtype=torch.uint8).to(device)
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world_size())]
    torch.distributed.all_gather(sizes, torch.tensor([len(sent)], device=device))
    longest = max(int(size) for size in sizes)
    rows = [torch.zeros(longest, dtype=torch.uint8, device=device) for _ in sizes]
    torch.distributed.all_gather(rows, torch.nn.functional.pad(sent, (0, longest - len(sent))))
    return [deserialize(row[: int(size)].cpu().numpy().tobytes()) for row, size in zip(rows, sizes, strict=True)]


def local_part(work: Sequence[Batch]) -> Sequence[Batch]:
    """The part of the work that this process computes."""
    return work[rank() :: world_size()]


def gather_parts(results: Sequence[Value]) -> list[Value]:
    """The results of all processes for their parts, in the order of the work."""
    parts = all_gather(list(results))
    return [parts[place % len(parts)][place // len(parts)] for place in range(sum(map(len, parts)))]


def all_reduce_sum(parts: "Sequence[Tensor]") -> "list[Tensor]":
    """The sum of each tensor over the processes; all on one device and of one type, in one message."""
    import torch

    if not _is_distributed():
        return list(parts)
    sent = torch.cat([part.flatten() for part in parts])
    torch.distributed.all_reduce(sent)
    sums = torch.split(sent, [part.numel() for part in parts])
    return [total.view_as(part) for total, part in zip(sums, parts, strict=True)]


def backward(
    model: Any, batches: Sequence[Batch], loss_of: "Callable[[Batch], tuple[Tensor, Callable[[], Value]]]"
) -> list[Value]:
    """Add the gradient of Σ loss_of(batch) over all processes to the model's weights in each process.

    torch's DistributedDataParallel adds up the gradients once, after the last micro-batch. `loss_of` returns a
    micro-batch's loss and a function to call after the backward pass; returns the results of these functions, in the
    order of the micro-batches.
    """
    if not _is_distributed():
        return [_backward(*loss_of(batch)) for batch in batches]
    summing, own = _summing(model, loss_of), local_part(batches)
    # Every process has to take part in the sum: one without work computes something of weight 0.
    taken, weight = (own, world_size()) if own else (batches[:1], 0)
    results = []
    for place, batch in enumerate(taken, start=1):
        with nullcontext() if place == len(taken) else summing.no_sync():
            loss, result = summing(batch)
            results.append(_backward(loss, result, weight))  # DDP takes the mean, hence the weight
    return gather_parts(results if own else [])


def _backward(loss: "Tensor", result: Callable[[], Value], weight: int = 1) -> Value:
    (loss * weight).backward()  # type: ignore[no-untyped-call]
    return result()


def _summing(model: Any, loss_of: Callable[..., Any]) -> Any:
    import torch

    class Losses(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, batch: Any) -> Any:
            return loss_of(batch)

    # The weights are equal already. Some may have no gradient: experts of a mixture that no token was routed to.
    return torch.nn.parallel.DistributedDataParallel(
        Losses(), init_sync=False, forward_sync_buffers=False, find_unused_parameters=True
    )


def world_size() -> int:
    """Processes that compute this stage."""
    import torch

    return torch.distributed.get_world_size() if _is_distributed() else 1


def _is_distributed() -> bool:
    import torch

    return torch.distributed.is_available() and torch.distributed.is_initialized()
