"""Log-probabilities of tokens and entropies, from logits [m, V]: fused, with a hand-written gradient.

With p = softmax(logits / T) and H its entropy, the gradients with respect to the logits are

    of log p of token y     (1_y - p) / T
    of H                    -p (log p + H) / T

torch's autograd computes the same in twice as many passes over the logits and holds one more copy.

A token that was drawn from a truncated distribution is scored over the set that was kept then: with q the softmax over
that set, its score is log q. The set is that of the policy which sampled the token, for every policy that scores it:
the importance ratio of a policy to itself is 1, and it is finite for all others ("Keep Sampling Mask", DeepSeek-V3.2,
arXiv:2512.02556, section 3.1).
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tasks.model.cpu import operations as cpu
from tasks.model.cuda import operations as cuda
from tasks.model.decoding.token_draw import scale_logits
from tasks.model.device import for_device

LOWEST = -1e3
"""In place of log 0 = -inf: times a probability of 0 it is 0."""

NONE = -1
"""In place of a token id: no token."""


def logprobs_and_entropies(
    logits: Tensor, rows: Tensor, tokens: Tensor, temperature: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities [n] of tokens [n] in rows [n] of logits [m, V], and those rows' entropies [n] in nats.

    `temperature` is one number, or [n] where tokens of one row have the same. In fp32 (float64 stays); differentiable.
    A row may predict several tokens: their gradients are added in order, so that the result is deterministic.
    """
    if not isinstance(temperature, int | float):
        temperature = temperature.new_ones(len(logits)).index_copy(0, rows, temperature)[:, None]  # [m, 1]
    logprobs, entropies = _fused_logprobs(logits, rows, tokens, temperature)
    return logprobs, entropies[rows]


class FusedLogprobs(torch.autograd.Function):
    """Logits [m, V], rows [n], tokens [n], temperature or [m, 1] → log-probabilities [n], entropies [m]."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, rows: Tensor, tokens: Tensor, temperature: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        scaled = scale_logits(logits, temperature)
        exponentials = for_device(logits.device, cpu=cpu.exponentials, cuda=cuda.exponentials)
        shifted, weights, total = exponentials(scaled)
        del scaled
        logarithm = total.log()
        mean = torch.bmm(weights[:, None], shifted[:, :, None])[:, 0, 0] / total
        entropies = logarithm - mean
        ctx.save_for_backward(weights, total, entropies, rows, tokens)
        ctx.temperature, ctx.dtype = temperature, logits.dtype
        ctx.set_materialize_grads(False)  # entropies often have none
        return shifted[rows, tokens] - logarithm[rows], entropies

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_tokens: Tensor | None, of_entropies: Tensor | None) -> tuple[Any, ...]:
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


_fused_logprobs: Callable[..., tuple[Tensor, Tensor]] = FusedLogprobs.apply


def pad_kept(sets: Sequence[Sequence[int]]) -> Tensor:
    """N kept sets as one tensor [N, K], padded with NONE; an empty set is not known."""
    sizes = torch.tensor([len(kept) for kept in sets])
    padded = torch.full((len(sets), int(sizes.max())), NONE)
    padded[torch.arange(padded.shape[1]) < sizes[:, None]] = torch.tensor(list(chain.from_iterable(sets)))
    return padded


def kept_logprobs_and_entropies(
    logits: Tensor, rows: Tensor, tokens: Tensor, kept: Tensor, temperature: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities [n] of tokens [n] in rows [n] of logits [m, V] over kept sets [n, K], and the entropies [n].

    `temperature` is one number or [n]. In fp32 (float64 stays); differentiable, with gradients added in order.
    """
    real = kept >= 0
    places = rows[:, None] * logits.shape[1] + kept.where(real, tokens[:, None])
    picked = logits.flatten().index_select(0, places.flatten()).view(places.shape)
    by_row = temperature if isinstance(temperature, int | float) else temperature[:, None]
    logs = scale_logits(picked, by_row).masked_fill(~real, -torch.inf).log_softmax(-1)
    logprobs = logs.masked_fill(kept != tokens[:, None], 0).sum(-1)
    finite = logs.clamp(min=LOWEST)
    return logprobs, -(finite.exp() * finite).sum(-1)
