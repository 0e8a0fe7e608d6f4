"""Draws of tokens from logits: temperature, truncation, then one uniform number that decides one token.

The kept set of a place is the k most probable tokens, and of these the fewest whose probabilities, normalised over the
k, add up to p or more (top-k and top-p: nucleus sampling, Holtzman et al. 2020, arXiv:1904.09751). Tokens as probable
as the last one of the set are in it, so that it is a function of the distribution alone.

The number is looked up in the inverse of the cumulative distribution. A large vocabulary is searched in two levels,
blocks of tokens and then the tokens of one block: cumulative sums have
V / BLOCK and BLOCK terms, not V. A row's token is a function of its own logits and number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

BLOCK = 256

ONE_LEVEL_TOKENS = 1024
"""Vocabularies up to this size are searched in one level: fewer operations, which is what few rows cost."""


@dataclass(frozen=True)
class Truncation:
    """Which tokens may be drawn; as constructed by default, all."""

    top_p: float = 1.0
    top_k: int = 0  # 0: no limit

    @property
    def is_off(self) -> bool:
        return self.top_p == 1 and self.top_k == 0

    def kept(self, scaled: Tensor) -> Tensor:
        """The kept set of each row of scaled logits [B, V], bool [B, V]; it has the most probable token."""
        width = min(self.top_k or scaled.shape[-1], scaled.shape[-1])
        values = scaled.topk(width).values  # [B, k], descending
        last = values[:, -1:]
        if self.top_p < 1:
            probabilities = values.softmax(-1)
            above = probabilities.cumsum(-1) - probabilities
            count = (above < self.top_p).sum(-1, keepdim=True).clamp_(min=1)
            last = values.gather(-1, count - 1)
        return scaled >= last


def uniforms(seeds: Sequence[int], steps: int, device: Any = "cpu") -> Tensor:
    """Numbers in [0, 1) [R, steps]: each row is a function of its seed; more steps only extend it."""
    rows = np.stack([np.random.Generator(np.random.Philox(seed)).random(steps) for seed in seeds])
    return torch.from_numpy(rows).to(device)


def draw(scaled: Tensor, points: Tensor, places: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Tokens [B] of softmax(scaled) and their log-probabilities [B]; scaled [D, V], points [B] in [0, 1).

    `places` [B]: the row of `scaled` that each point draws from; None: its own. A token of probability 0 is never
    drawn.
    """
    rows, tokens = scaled.shape
    highest = scaled.amax(-1, keepdim=True)
    if tokens <= ONE_LEVEL_TOKENS:
        inside = (scaled - highest).exp_().to(points.dtype)  # float64: a point has more digits than float32's sums
        total = inside.sum(-1)
        inside, total, scaled, highest = (rows_at(x, places) for x in (inside, total, scaled, highest))
        chosen = _first_above(inside, points * total)[0]
        return chosen, (scaled.gather(-1, chosen[:, None]) - highest)[:, 0] - total.log().to(scaled.dtype)
    blocks = -(-tokens // BLOCK)
    weights = scaled.new_empty(rows, blocks * BLOCK)
    torch.sub(scaled, highest, out=weights[:, :tokens]).exp_()
    weights[:, tokens:] = 0
    weights = weights.view(rows, blocks, BLOCK)
    sums = weights.sum(-1).to(points.dtype)  # [B, blocks]
    total = sums.sum(-1)
    sums, total, highest = (rows_at(x, places) for x in (sums, total, highest))
    block, rest = _first_above(sums, points * total)
    places = torch.arange(rows, device=scaled.device) if places is None else places
    inside = weights[places, block].to(points.dtype)
    chosen = (block * BLOCK + _first_above(inside, rest)[0]).clamp_(max=tokens - 1)  # beyond it only if all is NaN
    logprobs = scaled[places, chosen] - highest[:, 0] - total.log().to(scaled.dtype)
    return chosen, logprobs


def rows_at(x: Tensor, places: Tensor | None) -> Tensor:
    """The rows of x at these places; None: x itself."""
    return x if places is None else x.index_select(0, places)


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


def token_logprobs(logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """log softmax(logits / temperature) at `tokens`; logits [..., V], tokens [...] → [...] fp32 (float64 stays)."""
    return scale_logits(logits, temperature).log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


def scale_logits(logits: Tensor, temperature: float | Tensor) -> Tensor:
    """logits / temperature in fp32 (float64 stays); a tensor is broadcast."""
    wide = logits if logits.itemsize == 8 else logits.float()
    return wide if isinstance(temperature, int | float) and temperature == 1 else wide / temperature
