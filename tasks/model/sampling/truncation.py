"""Top-k and top-p truncation (nucleus sampling, Holtzman et al. 2020, arXiv:1904.09751).

The kept set of a place is the k most probable tokens, and of these the fewest whose probabilities, normalised over the
k, add up to p or more. Tokens as probable as the last one of the set are in it, so that it is a function of the
distribution alone.
"""

from dataclasses import dataclass

from torch import Tensor


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
