"""Log-probabilities and entropies of chosen tokens, with as few passes over [m, V] logits as they need.

With p = softmax(logits / T) and H its entropy, the gradients with respect to the logits are

    of log p of token y     (1_y - p) / T
    of H                    -p (log p + H) / T

torch's own formulas make the same in twice as many passes, and hold a copy more.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.model.scoring.padded_rows import scaled_logits

if TYPE_CHECKING:
    from torch import Tensor


LOWEST = -1e3
"""Stands for the logarithm of a chance of 0: times 0 it is 0."""


def chosen(logits: "Tensor", rows: "Tensor", tokens: "Tensor", temperature: float) -> tuple["Tensor", "Tensor"]:
    """Log-probabilities [n] of tokens [n] in rows [n] of logits [m, V], and those rows' entropies [n] in nats.

    In fp32 (float64 stays); differentiable. A row may stand for many tokens, and their gradients are added up in
    order, so that they are the same each time.
    """
    logprobs, entropies = _function().apply(logits, rows, tokens, temperature)
    return logprobs, entropies[rows]


@cache
def _function() -> Any:
    import torch
    from torch.autograd.function import once_differentiable

    class Chosen(torch.autograd.Function):
        """Logits [m, V], rows [n], tokens [n], temperature → log-probabilities [n], entropies [m]."""

        @staticmethod
        def forward(
            ctx: Any, logits: "Tensor", rows: "Tensor", tokens: "Tensor", temperature: float
        ) -> tuple["Tensor", "Tensor"]:
            scaled = scaled_logits(logits, temperature)
            shifted = scaled - scaled.amax(-1, keepdim=True)
            weights = shifted.exp()  # exp is taken once: the chances are weights / total
            total = weights.sum(-1)
            logarithm = total.log()
            mean = torch.bmm(weights[:, None], shifted[:, :, None])[:, 0, 0] / total
            entropies = logarithm - mean
            ctx.save_for_backward(weights, total, entropies, rows, tokens)
            ctx.temperature, ctx.dtype = temperature, logits.dtype
            ctx.set_materialize_grads(False)  # entropies often have none
            return shifted[rows, tokens] - logarithm[rows], entropies

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, of_tokens: "Tensor | None", of_entropies: "Tensor | None") -> tuple[Any, ...]:
            weights, total, entropies, rows, tokens = ctx.saved_tensors
            whole = weights.new_zeros(len(weights), 1)
            if of_tokens is not None:
                whole[:, 0].index_add_(0, rows, of_tokens)
            if of_entropies is not None:
                logs = (weights / total[:, None]).log_().clamp_(min=LOWEST)
                whole = whole + of_entropies[:, None] * (logs + entropies[:, None])  # [m, V]
            gradient = weights * (whole / -total[:, None])
            if of_tokens is not None:
                gradient.view(-1).index_add_(0, rows * weights.shape[1] + tokens, of_tokens)
            if ctx.temperature != 1:
                gradient /= ctx.temperature
            return gradient.to(ctx.dtype), None, None, None

    return Chosen
