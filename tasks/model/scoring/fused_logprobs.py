"""Fused log-softmax, gather and entropy over [m, V] logits, with a hand-written gradient.

With p = softmax(logits / T) and H its entropy, the gradients with respect to the logits are

    of log p of token y     (1_y - p) / T
    of H                    -p (log p + H) / T

torch's autograd computes the same in twice as many passes over the logits and holds one more copy.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.model.scoring.padded_rows import scale_logits

if TYPE_CHECKING:
    from torch import Tensor


LOWEST = -1e3
"""In place of log 0 = -inf: times a probability of 0 it is 0."""


def logprobs_and_entropies(
    logits: "Tensor", rows: "Tensor", tokens: "Tensor", temperature: "float | Tensor"
) -> tuple["Tensor", "Tensor"]:
    """Log-probabilities [n] of tokens [n] in rows [n] of logits [m, V], and those rows' entropies [n] in nats.

    `temperature` is one number, or [n] where tokens of one row have the same. In fp32 (float64 stays); differentiable.
    A row may predict several tokens: their gradients are added in order, so that the result is deterministic.
    """
    if not isinstance(temperature, int | float):
        temperature = temperature.new_ones(len(logits)).index_copy(0, rows, temperature)[:, None]  # [m, 1]
    logprobs, entropies = _function().apply(logits, rows, tokens, temperature)
    return logprobs, entropies[rows]


@cache
def _function() -> Any:
    import torch
    from torch.autograd.function import once_differentiable

    class FusedLogprobs(torch.autograd.Function):
        """Logits [m, V], rows [n], tokens [n], temperature or [m, 1] → log-probabilities [n], entropies [m]."""

        @staticmethod
        def forward(
            ctx: Any, logits: "Tensor", rows: "Tensor", tokens: "Tensor", temperature: "float | Tensor"
        ) -> tuple["Tensor", "Tensor"]:
            scaled = scale_logits(logits, temperature)
            shifted = scaled - scaled.amax(-1, keepdim=True)
            weights = shifted.exp()  # exp is computed once: p = weights / total
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
            common = weights.new_zeros(len(weights), 1)
            if of_tokens is not None:
                common[:, 0].index_add_(0, rows, of_tokens)
            if of_entropies is not None:
                logs = (weights / total[:, None]).log_().clamp_(min=LOWEST)
                common = common + of_entropies[:, None] * (logs + entropies[:, None])  # [m, V]
            gradient = weights * (common / -total[:, None])
            if of_tokens is not None:
                gradient.view(-1).index_add_(0, rows * weights.shape[1] + tokens, of_tokens)
            if isinstance(ctx.temperature, torch.Tensor) or ctx.temperature != 1:
                gradient /= ctx.temperature
            return gradient.to(ctx.dtype), None, None, None

    return FusedLogprobs
