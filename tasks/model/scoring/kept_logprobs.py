"""Log-probabilities of tokens that were drawn from a truncated distribution, over the sets that were kept then.

With q = softmax(logits / T) over the kept set of a token, its score is log q at the token. The set is that of the
policy which sampled the token, for every policy that scores it: the importance ratio of a policy to itself is 1, and
it is finite for all others ("Keep Sampling Mask", DeepSeek-V3.2, arXiv:2512.02556, section 3.1).
"""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from tasks.model.scoring.fused_logprobs import LOWEST
from tasks.model.scoring.padded_rows import scale_logits

if TYPE_CHECKING:
    from torch import Tensor

NONE = -1
"""In place of a token id: no token."""


def pad_kept(sets: Sequence[Sequence[int]]) -> "Tensor":
    """N kept sets as one tensor [N, K], padded with NONE; an empty set is not known."""
    import torch

    sizes = torch.tensor([len(each) for each in sets])
    padded = torch.full((len(sets), int(sizes.max())), NONE)
    padded[torch.arange(padded.shape[1]) < sizes[:, None]] = torch.tensor(list(chain.from_iterable(sets)))
    return padded


def kept_logprobs_and_entropies(
    logits: "Tensor", rows: "Tensor", tokens: "Tensor", kept: "Tensor", temperature: "float | Tensor"
) -> tuple["Tensor", "Tensor"]:
    """Log-probabilities [n] of tokens [n] in rows [n] of logits [m, V] over kept sets [n, K], and the entropies [n].

    `temperature` is one number or [n]. In fp32 (float64 stays); differentiable, with gradients added in order.
    """
    import torch

    real = kept >= 0
    places = rows[:, None] * logits.shape[1] + kept.where(real, tokens[:, None])
    picked = logits.flatten().index_select(0, places.flatten()).view(places.shape)
    by_row = temperature if isinstance(temperature, int | float) else temperature[:, None]
    logs = scale_logits(picked, by_row).masked_fill(~real, -torch.inf).log_softmax(-1)
    logprobs = logs.masked_fill(kept != tokens[:, None], 0).sum(-1)
    finite = logs.clamp(min=LOWEST)
    return logprobs, -(finite.exp() * finite).sum(-1)
