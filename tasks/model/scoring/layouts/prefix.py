"""Prefixes: each prompt computed once, with its gradient, into a key-value cache that all its completions read.

Completions are padded to the longest of their batch, which costs where their lengths are unlike; attention looks at
no pair in vain: best where completions are long, or of like length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.model.scoring.hf_model import Run
from tasks.model.scoring.micro_batches import Group
from tasks.model.scoring.token_scores import Aim, aim_at

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PrefixBatch:
    """D distinct prompts of at most P tokens, R completions of at most C."""

    prompts: "Tensor"  # [D, P] padded on the left
    prompt_attention: "Tensor"  # [D, P] 1 = a real token
    counts: list[int]  # completions of each prompt; rows stand in this order
    ids: "Tensor"  # [R, C - 1] all tokens but the last, padded on the right
    positions: "Tensor"  # [R, C - 1]
    attention: "Tensor"  # [R, P + C - 1]
    aim: Aim  # at the last position of each prompt, then at the completions' positions

    @property
    def predictions(self) -> int:
        """How many there are in all pieces."""
        return len(self.prompts) + self.ids.numel()

    def pieces(self, run: Run) -> list["Tensor"]:
        """What the model predicts behind the prompts [D, ·] and behind each completion token [R · (C - 1), ·]."""
        first, cache = run(
            1,
            input_ids=self.prompts,
            attention_mask=self.prompt_attention,
            position_ids=(self.prompt_attention.cumsum(-1) - 1).clamp_(min=0),
            use_cache=True,
        )
        if not self.ids.shape[1]:
            return [first[:, 0]]
        for layer in cache.layers:
            layer.keys, layer.values = self._spread(layer.keys), self._spread(layer.values)
        rest, _ = run(
            self.ids.shape[1],
            input_ids=self.ids,
            attention_mask=self.attention,
            position_ids=self.positions,
            past_key_values=cache,
            use_cache=True,
        )
        return [first[:, 0], rest.flatten(0, 1)]

    def _spread(self, values: "Tensor") -> "Tensor":
        """[D, ...] → [R, ...]. Not by an index: torch would add up the gradients of equal rows in any order."""
        import torch

        return torch.cat([row.expand(count, *row.shape) for row, count in zip(values, self.counts, strict=True)])


def collate_prefixes(groups: Sequence[Group], pad: int, device: Any = "cpu") -> PrefixBatch:
    """Lay out D groups of samples with one prompt each; the completions keep their order."""
    import torch

    prompts = [list(group[0].prompt) for group in groups]
    samples = [s for group in groups for s in group]
    width, length = max(map(len, prompts)), max(len(s.completion) for s in samples)
    seen = [list(s.completion[:-1]) for s in samples]
    row = torch.arange(length - 1)
    real = row < torch.tensor([len(tokens) for tokens in seen])[:, None]
    before = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    counts = [len(group) for group in groups]
    owner = [d for d, count in enumerate(counts) for _ in range(count)]
    rest = [len(groups) + r * (length - 1) for r in range(len(samples))]
    return PrefixBatch(
        prompts=torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=device),
        prompt_attention=before.to(device),
        counts=counts,
        ids=torch.tensor([tokens + [pad] * (length - 1 - len(tokens)) for tokens in seen], device=device).long(),
        positions=(torch.tensor([len(s.prompt) for s in samples])[:, None] + row).to(device),
        attention=torch.cat([before.repeat_interleave(torch.tensor(counts), 0), real.long()], dim=1).to(device),
        aim=aim_at(samples, owner, rest, device),
    )
