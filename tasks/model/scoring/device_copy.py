"""Small tensors that are made on the CPU, in one copy on the device of the model."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from tasks.model.cuda.operations import send
from tasks.model.device import for_device


def to_device(tensors: Sequence[Tensor], device: Any) -> list[Tensor]:
    """Tensors of one type on the CPU, on `device`; the CPU does not wait for a card."""
    copy: Callable[[Sequence[Tensor], Any], list[Tensor]] = for_device(device, cpu=_copy_each, cuda=send)
    return copy(tensors, device)


def _copy_each(tensors: Sequence[Tensor], device: Any) -> list[Tensor]:
    """Nothing on a CPU, where they are."""
    return [tensor.to(device) for tensor in tensors]
