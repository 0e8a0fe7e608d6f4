"""Sampling by the inverse of the cumulative distribution: one uniform number decides one token.

A large vocabulary is searched in two levels, blocks of tokens and then the tokens of one block: cumulative sums have
V / BLOCK and BLOCK terms, not V. A row's token is a function of its own logits and number.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

BLOCK = 256

ONE_LEVEL_TOKENS = 1024
"""Vocabularies up to this size are searched in one level: fewer operations, which is what few rows cost."""


def uniforms(seeds: Sequence[int], steps: int, device: Any = "cpu") -> Tensor:
    """Numbers in [0, 1) [R, steps]: each row is a function of its seed; more steps only extend it."""
    rows = np.stack([np.random.Generator(np.random.Philox(seed)).random(steps) for seed in seeds])
    return torch.from_numpy(rows).to(device)


def draw(scaled: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens [B] of softmax(scaled) and their log-probabilities [B]; scaled [B, V], points [B] in [0, 1).

    A token of probability 0 is never drawn.
    """
    rows, tokens = scaled.shape
    highest = scaled.amax(-1, keepdim=True)
    if tokens <= ONE_LEVEL_TOKENS:
        inside = (scaled - highest).exp_().to(points.dtype)
        total = inside.sum(-1)
        chosen = _first_above(inside, points * total)[0]
        return chosen, (scaled.gather(-1, chosen[:, None]) - highest)[:, 0] - total.log().to(scaled.dtype)
    blocks = -(-tokens // BLOCK)
    weights = scaled.new_empty(rows, blocks * BLOCK)
    torch.sub(scaled, highest, out=weights[:, :tokens]).exp_()
    weights[:, tokens:] = 0
    weights = weights.view(rows, blocks, BLOCK)
    sums = weights.sum(-1).to(points.dtype)  # [B, blocks]
    total = sums.sum(-1)
    block, rest = _first_above(sums, points * total)
    inside = weights.gather(1, block[:, None, None].expand(-1, -1, BLOCK))[:, 0].to(points.dtype)
    chosen = (block * BLOCK + _first_above(inside, rest)[0]).clamp_(max=tokens - 1)  # beyond it only if all is NaN
    logprobs = (scaled.gather(-1, chosen[:, None]) - highest)[:, 0] - total.log().to(scaled.dtype)
    return chosen, logprobs


def _first_above(weights: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """The first index whose cumulative sum is above the point, and the rest of the point in it.

    weights [B, N], point [B] → [B], [B]
    """
    cumulative = weights.cumsum(-1)
    last = cumulative[:, -1]
    point = torch.minimum(point, torch.nextafter(last, last.new_zeros(())))  # rounding may raise it to the sum
    place = torch.searchsorted(cumulative, point[:, None], right=True)
    place.clamp_(max=weights.shape[1] - 1)  # NaN is above all
    before = (cumulative.gather(1, place) - weights.gather(1, place))[:, 0]
    return place[:, 0], point - before
