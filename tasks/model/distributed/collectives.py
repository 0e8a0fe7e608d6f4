"""What the processes of one stage share: each has the whole model, and computes a part of the work.

What there is to do is dealt out in turn: it stands in the order of its length, so that all get about as much to do.
In the end every process has the same numbers, and goes the same way. The weights are whole in each process: more
processes take less time, not less memory.

Outside a process group, which is where `grpo.processes: 1` leaves a stage, this process does everything.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tasks.model.distributed.safe_serialization import packed, unpacked

if TYPE_CHECKING:
    from torch import Tensor

Batch = TypeVar("Batch")
Value = TypeVar("Value")


PATIENCE = timedelta(days=1)
"""How long a process waits for the others. torchrun ends it when one of them has ended, so that it may be long."""


@contextmanager
def joined(store: Path) -> Iterator[None]:
    """In the block this process is one of those that torchrun has started: by nccl with a GPU each, else by gloo.

    They find each other by the file `store`, which no process may have used before.
    """
    import torch

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    number, all = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    file = torch.distributed.FileStore(str(store), all)  # type: ignore[attr-defined]
    file.set_timeout(PATIENCE)
    torch.distributed.init_process_group(
        "nccl" if cuda else "gloo", store=file, rank=number, world_size=all, timeout=PATIENCE
    )
    yield
    torch.distributed.destroy_process_group()  # not after an error: it could wait for those who wait for this one


def rank() -> int:
    """Which of the processes this one is, from 0; the first is the one that writes and tells."""
    import torch

    return torch.distributed.get_rank() if _several() else 0


def gathered(value: Value) -> list[Value]:
    """The value of each process, in their order, sent as data (tasks/model/distributed/safe_serialization.py). Tensors
    must be on the CPU."""
    import torch

    if not _several():
        return [value]
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    sent = torch.frombuffer(bytearray(packed(value)), dtype=torch.uint8).to(device)
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(count())]
    torch.distributed.all_gather(sizes, torch.tensor([len(sent)], device=device))
    longest = max(int(size) for size in sizes)
    rows = [torch.zeros(longest, dtype=torch.uint8, device=device) for _ in sizes]
    torch.distributed.all_gather(rows, torch.nn.functional.pad(sent, (0, longest - len(sent))))
    return [unpacked(row[: int(size)].cpu().numpy().tobytes()) for row, size in zip(rows, sizes, strict=True)]


def share(work: Sequence[Batch]) -> Sequence[Batch]:
    """What of it this process computes."""
    return work[rank() :: count()]


def whole(found: Sequence[Value]) -> list[Value]:
    """What all processes found for their shares, in the order of the work."""
    shares = gathered(list(found))
    return [shares[place % len(shares)][place // len(shares)] for place in range(sum(map(len, shares)))]


def added_up(parts: "Sequence[Tensor]") -> "list[Tensor]":
    """The sum over the processes of each tensor, on one device and of one type; sent together."""
    import torch

    if not _several():
        return list(parts)
    sent = torch.cat([part.flatten() for part in parts])
    torch.distributed.all_reduce(sent)
    sums = torch.split(sent, [part.numel() for part in parts])
    return [total.view_as(part) for total, part in zip(sums, parts, strict=True)]


def backward(
    model: Any, batches: Sequence[Batch], loss_of: "Callable[[Batch], tuple[Tensor, Callable[[], Value]]]"
) -> list[Value]:
    """Add the gradient of Σ loss_of(batch) to the model's weights, in every process the whole one.

    torch's DistributedDataParallel adds up what the processes find, after the last micro-batch alone. `loss_of` gives
    the loss of a micro-batch and a function that tells of it after the backward pass; returned is what these tell, in
    the order of the micro-batches.
    """
    if not _several():
        return [_backward(*loss_of(batch)) for batch in batches]
    summing, own = _summing(model, loss_of), share(batches)
    # Every process has to take part in adding up: one without a share computes something that weighs nothing.
    taken, weight = (own, count()) if own else (batches[:1], 0)
    found = []
    for place, batch in enumerate(taken, start=1):
        with nullcontext() if place == len(taken) else summing.no_sync():
            loss, tell = summing(batch)
            found.append(_backward(loss, tell, weight))  # the mean over the processes is taken, hence the weight
    return whole(found if own else [])


def _backward(loss: "Tensor", tell: Callable[[], Value], weight: int = 1) -> Value:
    (loss * weight).backward()  # type: ignore[no-untyped-call]
    return tell()


def _summing(model: Any, loss_of: Callable[..., Any]) -> Any:
    import torch

    class Losses(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, batch: Any) -> Any:
            return loss_of(batch)

    # The weights are equal already. Some may have no gradient: experts of a mixture that no token was sent to.
    return torch.nn.parallel.DistributedDataParallel(
        Losses(), init_sync=False, forward_sync_buffers=False, find_unused_parameters=True
    )


def count() -> int:
    """How many processes compute this stage."""
    import torch

    return torch.distributed.get_world_size() if _several() else 1


def _several() -> bool:
    import torch

    return torch.distributed.is_available() and torch.distributed.is_initialized()
