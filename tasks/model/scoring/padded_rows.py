"""Padded batches of prompts and completions, and log-probabilities of given tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PaddedBatch:
    """B rows: prompts padded on the left to P, completions on the right to C, S = P + C."""

    ids: "Tensor"  # [B, S]
    attention: "Tensor"  # [B, S] 1 = a real token
    positions: "Tensor"  # [B, S] index among the row's real tokens
    completion: "Tensor"  # [B, C]
    mask: "Tensor"  # [B, C] bool, True = a real completion token


def collate(
    prompts: Sequence[list[int]], completions: Sequence[list[int]], pad: int, device: Any = "cpu"
) -> PaddedBatch:
    """Pad B (prompt, completion) pairs into one batch."""
    import torch

    width = max(len(p) for p in prompts)
    length = max(len(c) for c in completions)
    left = [[pad] * (width - len(p)) + p for p in prompts]
    right = [c + [pad] * (length - len(c)) for c in completions]
    real = [
        [0] * (width - len(p)) + [1] * (len(p) + len(c)) + [0] * (length - len(c))
        for p, c in zip(prompts, completions, strict=True)
    ]
    attention = torch.tensor(real, device=device)
    return PaddedBatch(
        ids=torch.tensor([a + b for a, b in zip(left, right, strict=True)], device=device),
        attention=attention,
        positions=(attention.cumsum(-1) - 1).clamp_(min=0),
        completion=torch.tensor(right, device=device),
        mask=attention[:, width:].bool(),
    )


def token_logprobs(logits: "Tensor", tokens: "Tensor", temperature: float) -> "Tensor":
    """log softmax(logits / temperature) at `tokens`; logits [..., V], tokens [...] → [...] fp32 (float64 stays)."""
    return scale_logits(logits, temperature).log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


def scale_logits(logits: "Tensor", temperature: "float | Tensor") -> "Tensor":
    """logits / temperature in fp32 (float64 stays); a tensor is broadcast."""
    wide = logits if logits.itemsize == 8 else logits.float()
    return wide if isinstance(temperature, int | float) and temperature == 1 else wide / temperature
