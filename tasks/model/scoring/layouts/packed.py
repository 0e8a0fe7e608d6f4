"""Packed: all prompts with their completions in one row, no token twice and none in vain.

    ids        p0 p1 | q0 | p2 q1 | a0 a1 b0 b1 b2 c0
    positions   0  1    0    2  1    3  4  3  4  5  2

First the prompts without their last tokens, then these, then the completions (a and b of p, c of q), whose positions go
on from their prompt's: what predicts a token stands at the end of the row. The last token of a completion predicts
nothing and is left out. Attention is told what sees what (tasks/model/scoring/packed_attention.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tasks.model.scoring.hf_model import Run
from tasks.model.scoring.micro_batches import Group, cut
from tasks.model.scoring.packed_attention import Places, places_of
from tasks.model.scoring.token_scores import Aim, aim_at

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PackedBatch:
    """A row of N tokens, of D groups."""

    ids: "Tensor"  # [1, N]
    positions: "Tensor"  # [1, N]
    places: Places
    predictions: int  # how many there are in all pieces: the last ones of the row
    aim: Aim

    def pieces(self, run: Run) -> list["Tensor"]:
        """What the model predicts behind each prompt and each completion token but the last, [D + …, ·]."""
        predicted, _ = run(
            self.predictions,
            input_ids=self.ids,
            position_ids=self.positions,
            packed_places=self.places,
            use_cache=False,
        )
        return [predicted[0]]


def collate_packed(groups: Sequence[Group], dtype: Any, device: Any = "cpu") -> PackedBatch:
    """Lay out D groups; the completions keep their order. `dtype` is that of the attention."""
    import torch

    prompts = [group[0].prompt for group in groups]
    seen = [[s.completion[:-1] for s in group] for group in groups]
    starts = [0, *accumulate(len(prompt) - 1 for prompt in prompts)]
    ends = range(starts[-1], starts[-1] + len(prompts))  # places of the prompts' last tokens
    ids = [token for prompt in prompts for token in prompt[:-1]] + [prompt[-1] for prompt in prompts]
    positions = [i for prompt in prompts for i in range(len(prompt) - 1)] + [len(prompt) - 1 for prompt in prompts]
    room = max(len(tokens) for own in seen for tokens in own)
    chunks: list[range] = []
    branches: list[list[int]] = []  # which completion each of a chunk's tokens is of
    owners: list[int] = []
    rest: list[int] = []  # predictions behind the first token of each completion
    for d, (prompt, own) in enumerate(zip(prompts, seen, strict=True)):
        for chunk in cut([len(tokens) for tokens in own], room):
            start = len(ids)
            for number, length in chunk:
                rest.append(len(ids) - starts[-1])
                ids += own[number]
                positions += range(len(prompt), len(prompt) + length)
            chunks.append(range(start, len(ids)))
            branches.append([number for number, length in chunk for _ in range(length)])
            owners.append(d)
    whole = [[*range(starts[d], starts[d + 1]), ends[d]] for d in range(len(prompts))]
    return PackedBatch(
        ids=torch.tensor([ids], device=device),
        positions=torch.tensor([positions], device=device),
        places=places_of(whole, chunks, branches, owners, dtype, device),
        predictions=len(ids) - starts[-1],
        aim=aim_at(
            [s for group in groups for s in group], [d for d, own in enumerate(seen) for _ in own], rest, device
        ),
    )
