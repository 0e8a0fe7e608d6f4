"""Operations that are faster on a CUDA card in another way than on a CPU, or the same each time only by request."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tasks.errors import GraftError
from tasks.model.cpu.operations import Mask

ALIGNMENT = 16
"""A fused kernel copies a mask whose rows do not begin at a multiple of this many numbers."""

DETERMINISTIC = "update.deterministic"
"""The param that has an update computed by deterministic operations."""

REFUSAL = " does not have a deterministic implementation"
"""What torch says of an operation after its name."""


def exponentials(scaled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As on a CPU (cpu/operations.py); passes over the logits take longest, of which log_softmax needs fewer."""
    shifted = scaled.log_softmax(-1)
    weights = shifted.exp()
    return shifted, weights, weights.new_ones(len(weights))


def attend_packed(q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float) -> Tensor:
    """Attention of packed rows by torch's fused kernels, which keep no weights.

    q [n, heads, M, d], k and v [n, kv, t, d] → as q; differentiable. `mask`: of a `QueryBlock`.
    """
    if not q.shape[2]:
        return q
    rows, repeats = q.reshape(*k.shape[:2], -1, q.shape[3]), q.shape[1] // k.shape[1]
    bias = mask(q.dtype, repeats, ALIGNMENT).expand(len(q), k.shape[1], -1, -1)
    # cuDNN's kernels are prepared for each shape, and shapes differ with each micro-batch.
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        return scaled_dot_product_attention(rows, k, v, bias, scale=scale).reshape(q.shape)


def send(tensors: Sequence[Tensor], device: Any) -> list[Tensor]:
    """Tensors of one type on the CPU, in one copy on a card, for which the CPU does not wait."""
    sent = torch.cat([tensor.flatten() for tensor in tensors]).pin_memory()  # from other memory the CPU would wait
    parts = torch.split(sent.to(device, non_blocking=True), [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


@contextmanager
def deterministic_operations() -> Iterator[None]:
    """In the block, torch adds in a fixed order, which is slower: gradients of rows that repeat, for instance.

    Raises GraftError where the model has an operation that cannot do so on a card.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else torch refuses matrix products
    settings: Any = torch.utils.deterministic
    filled = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    settings.fill_uninitialized_memory = False  # nothing reads it
    try:
        yield
    except RuntimeError as error:
        if REFUSAL not in str(error):
            raise
        what = str(error).partition(REFUSAL)[0]
        raise GraftError(f"{DETERMINISTIC}: on this card {what} adds in no fixed order; set it to false") from error
    finally:
        torch.use_deterministic_algorithms(False)
        settings.fill_uninitialized_memory = filled
