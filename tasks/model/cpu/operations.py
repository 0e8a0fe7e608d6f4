"""Operations that are faster on a CPU in another way than on a card."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Mask = Callable[..., Tensor]
"""`QueryBlock.mask` (scoring/packed_attention.py)."""


def exponentials(scaled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For softmax over scaled logits [m, V]: these less a number [m], their exponentials, and the sums of these [m].

    exp takes longest: it is computed once, and p = exponentials / sum.
    """
    shifted = scaled - scaled.amax(-1, keepdim=True)
    weights = shifted.exp()
    return shifted, weights, weights.sum(-1)


class DenseAttention(torch.autograd.Function):
    """Attention of packed rows with a hand-written gradient, which takes less time than the fused kernels on a CPU.

    q [n, heads, M, d], k and v [n, kv, t, d] → as q; saved are q, k, v, weights [n, heads, M, t] and output.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float) -> Tensor:
        keys, values = k.flatten(0, 1), v.flatten(0, 1)
        scores = torch.bmm(_by_keys(q * scale, k), keys.mT).view(*q.shape[:-1], k.shape[2])
        wide = torch.promote_types(scores.dtype, torch.float32)
        weights = scores.add_(mask(q.dtype)).softmax(-1, dtype=wide).to(q.dtype)
        output = torch.bmm(_by_keys(weights, k), values).view(q.shape)
        ctx.save_for_backward(q, k, v, weights, output)
        ctx.scale = scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Any, ...]:
        q, k, v, weights, output = ctx.saved_tensors
        queries, above, output, probabilities = (_by_keys(x, k) for x in (q, above, output, weights))
        keys, values = k.flatten(0, 1), v.flatten(0, 1)
        # Softmax: p (g - Σ p g); the sum over keys is that of output and its gradient over d (Dao et al. 2022, B.2).
        inner = torch.linalg.vecdot(output, above)[..., None]
        to_scores = torch.bmm(above, values.mT).sub_(inner).mul_(probabilities).mul_(ctx.scale)
        parts = torch.bmm(to_scores, keys), torch.bmm(to_scores.mT, queries), torch.bmm(probabilities.mT, above)
        return *(part.view(x.shape) for part, x in zip(parts, (q, k, v), strict=True)), None, None


attend_packed: Callable[..., Tensor] = DenseAttention.apply


def _by_keys(x: Tensor, k: Tensor) -> Tensor:
    """Queries [n, heads, M, w] as rows of their key-value heads, [n · kv, heads / kv · M, w]; M may be 0."""
    return x.reshape(k.shape[0] * k.shape[1], x.shape[1] // k.shape[1] * x.shape[2], x.shape[3])


def deterministic_operations() -> AbstractContextManager[None]:
    """Nothing to do: a CPU adds in a fixed order."""
    return nullcontext()


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with `count` torch threads; afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
