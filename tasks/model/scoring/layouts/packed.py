"""Packed layout: all prompts and completions in one row, without padding; each prompt is computed once.

    ids        p0 p1 | q0 | p2 q1 | a0 a1 b0 b1 b2 c0
    positions   0  1    0    2  1    3  4  3  4  5  2

First what all prompts begin with, if that is much, then the rest of the prompts without their last tokens, then these
last tokens, then the completions (a and b of p, c of q), whose positions continue their prompt's: all predictions are
at the end of the row. The last token of a completion predicts nothing and is left out. The attention mask is replaced
(tasks/model/scoring/packed_attention.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tasks.model.scoring.hf_model import Forward
from tasks.model.scoring.micro_batches import Group, common_prefix, cut_into_chunks
from tasks.model.scoring.packed_attention import PackedIndex, index_packed_row
from tasks.model.scoring.token_scores import TokenIndex, index_tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PackedBatch:
    """A row of N tokens, of D groups."""

    ids: "Tensor"  # [1, N]
    positions: "Tensor"  # [1, N]
    attention: PackedIndex
    predictions: int  # in all chunks: the last ones of the row
    index: TokenIndex

    def chunks(self, forward: Forward) -> list["Tensor"]:
        """The model's predictions after each prompt and each completion token except the last, [D + …, ·]."""
        predicted = forward(
            self.predictions,
            input_ids=self.ids,
            position_ids=self.positions,
            packed_index=self.attention,
            use_cache=False,
        )
        return [predicted[0]]


def collate_packed(groups: Sequence[Group], dtype: Any, device: Any = "cpu") -> PackedBatch:
    """One row for D groups; the completions keep their order. `dtype` is that of the attention."""
    import torch

    prompts = [group[0].prompt for group in groups]
    inputs = [[s.completion[:-1] for s in group] for group in groups]
    common = common_prefix(prompts)
    starts = list(accumulate((len(prompt) - 1 - common for prompt in prompts), initial=common))
    ends = range(starts[-1], starts[-1] + len(prompts))  # places of the prompts' last tokens
    ids = [*prompts[0][:common], *(token for prompt in prompts for token in prompt[common:-1])]
    ids += [prompt[-1] for prompt in prompts]
    positions = [*range(common), *(i for prompt in prompts for i in range(common, len(prompt) - 1))]
    positions += [len(prompt) - 1 for prompt in prompts]
    room = max(len(tokens) for own in inputs for tokens in own)
    chunks: list[range] = []
    completions: list[list[int]] = []  # the completion of each token of a chunk
    owners: list[int] = []
    rest: list[int] = []  # predictions after the first token of each completion
    for d, (prompt, own) in enumerate(zip(prompts, inputs, strict=True)):
        for chunk in cut_into_chunks([len(tokens) for tokens in own], room):
            start = len(ids)
            for number, length in chunk:
                rest.append(len(ids) - starts[-1])
                ids += own[number]
                positions += range(len(prompt), len(prompt) + length)
            chunks.append(range(start, len(ids)))
            completions.append([number for number, length in chunk for _ in range(length)])
            owners.append(d)
    places = [[*range(starts[d], starts[d + 1]), ends[d]] for d in range(len(prompts))]
    first = [d for d, own in enumerate(inputs) for _ in own]
    return PackedBatch(
        ids=torch.tensor([ids], device=device),
        positions=torch.tensor([positions], device=device),
        attention=index_packed_row(range(common), places, chunks, completions, owners, dtype, device),
        predictions=len(ids) - starts[-1],
        index=index_tokens([s for group in groups for s in group], first, rest, device),
    )
