"""Small tensors that are made on the CPU, in one copy on the device of the model."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def to_device(tensors: Sequence[Tensor], device: Any) -> list[Tensor]:
    """Tensors of one type on the CPU, on `device`; the CPU does not wait for a CUDA device."""
    device = torch.device(device)
    if device.type == "cpu":
        return list(tensors)
    sent = torch.cat([tensor.flatten() for tensor in tensors])
    if device.type == "cuda":
        sent = sent.pin_memory()
    parts = torch.split(sent.to(device, non_blocking=device.type == "cuda"), [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
