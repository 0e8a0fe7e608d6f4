"""Layouts of samples as a model's input: rows, packed, completions.

rows         one padded row per sample, prompt included: the reference, which every model computes correctly
packed       all prompts and completions in one row, without padding; each prompt is computed once
completions  a row each, without their prompts, whose keys and values are constants: no gradient flows into the prompts

Values are the same in all three. A packed row of the prompts p and q, with the completions a and b of p, c of q:

    ids        p0 p1 | q0 | p2 q1 | a0 a1 b0 b1 b2 c0
    positions   0  1    0    2  1    3  4  3  4  5  2

First what all prompts begin with, if that is much, then the rest of the prompts without their last tokens, then these
last tokens, then the completions, whose positions continue their prompt's: all predictions are at the end of the row.
The last token of a completion predicts nothing and is left out. The attention mask is replaced
(tasks/model/scoring/packed_attention.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from tasks.model.decoding.growing_cache import common_prefix
from tasks.model.hf_model import Forward
from tasks.model.sample import Sample
from tasks.model.scoring.device_copy import to_device
from tasks.model.scoring.micro_batches import Group, cut_into_chunks
from tasks.model.scoring.packed_attention import index_packed_row
from tasks.model.scoring.prompt_cache import PromptCache
from tasks.model.scoring.token_scores import TokenIndex, index_tokens


@dataclass(frozen=True)
class PaddedBatch:
    """B rows: prompts padded on the left to P, completions on the right to C, S = P + C: a completion is the last C."""

    ids: Tensor  # [B, S]
    attention: Tensor  # [B, S] 1 = a real token
    positions: Tensor  # [B, S] index among the row's real tokens
    mask: Tensor  # [B, C] bool, True = a real completion token


def collate(
    prompts: Sequence[list[int]], completions: Sequence[list[int]], pad: int, device: Any = "cpu"
) -> PaddedBatch:
    """Pad B (prompt, completion) pairs into one batch."""
    width = max(len(p) for p in prompts)
    length = max(len(c) for c in completions)
    ids, real = [], []
    for prompt, completion in zip(prompts, completions, strict=True):
        left, right = width - len(prompt), length - len(completion)
        ids.append([pad] * left + prompt + completion + [pad] * right)
        real.append([0] * left + [1] * (len(prompt) + len(completion)) + [0] * right)
    rows, attention = to_device([torch.tensor(ids), torch.tensor(real)], device)
    return PaddedBatch(
        ids=rows,
        attention=attention,
        positions=(attention.cumsum(-1) - 1).clamp_(min=0),
        mask=attention[:, width:].bool(),
    )


@dataclass(frozen=True)
class ModelInputs:
    """R completions as B rows that a model computes at once."""

    inputs: dict[str, Any]  # of the model's forward pass
    kept: int  # the last positions of each row, whose predictions are computed
    index: TokenIndex
    without_last: bool = False  # the last position of each row predicts nothing

    @property
    def predictions(self) -> int:
        """How many predictions: m."""
        return len(self.inputs["input_ids"]) * (self.kept - self.without_last)

    def predict(self, forward: Forward) -> Tensor:
        """The model's predictions [m, ·], row by row."""
        predicted = forward(self.kept, **self.inputs, use_cache=False)
        return (predicted[:, :-1] if self.without_last else predicted).flatten(0, 1)


def collate_rows(samples: Sequence[Sample], pad: int, device: Any = "cpu") -> ModelInputs:
    """One row for each of R samples."""
    batch = collate([list(s.prompt) for s in samples], [list(s.completion) for s in samples], pad, device)
    rows, width = batch.mask.shape
    first = range(0, rows * width, width)
    inputs = {"input_ids": batch.ids, "attention_mask": batch.attention, "position_ids": batch.positions}
    index = index_tokens(samples, first, [place + 1 for place in first], device)
    return ModelInputs(inputs, width + 1, index, without_last=True)


def collate_packed(groups: Sequence[Group], device: Any = "cpu") -> ModelInputs:
    """One row for D groups; the completions keep their order."""
    prompts = [group[0].prompt for group in groups]
    inputs = [[s.completion[:-1] for s in group] for group in groups]
    common = common_prefix(prompts)
    starts = list(accumulate((len(prompt) - 1 - common for prompt in prompts), initial=common))
    ends = range(starts[-1], starts[-1] + len(prompts))  # places of the prompts' last tokens
    ids = [*prompts[0][:common], *(token for prompt in prompts for token in prompt[common:-1])]
    ids += [prompt[-1] for prompt in prompts]
    positions = [*range(common), *(i for prompt in prompts for i in range(common, len(prompt) - 1))]
    positions += [len(prompt) - 1 for prompt in prompts]
    room = max(len(tokens) for completed in inputs for tokens in completed)
    chunks: list[range] = []
    completions: list[list[int]] = []  # the completion of each token of a chunk
    owners: list[int] = []
    rest: list[int] = []  # predictions after the first token of each completion
    for d, (prompt, completed) in enumerate(zip(prompts, inputs, strict=True)):
        for chunk in cut_into_chunks([len(tokens) for tokens in completed], room):
            start = len(ids)
            for number, length in chunk:
                rest.append(len(ids) - starts[-1])
                ids += completed[number]
                positions += range(len(prompt), len(prompt) + length)
            chunks.append(range(start, len(ids)))
            completions.append([number for number, length in chunk for _ in range(length)])
            owners.append(d)
    places = [[*range(starts[d], starts[d + 1]), ends[d]] for d in range(len(prompts))]
    first = [d for d, completed in enumerate(inputs) for _ in completed]
    row, at = to_device([torch.tensor([ids]), torch.tensor([positions])], device)
    attention = index_packed_row(range(common), places, chunks, completions, owners, device)
    return ModelInputs(
        {"input_ids": row, "position_ids": at, "packed_index": attention},
        len(ids) - starts[-1],
        index_tokens([s for group in groups for s in group], first, rest, device),
    )


def collate_completions(samples: Sequence[Sample], prompts: PromptCache, pad: int, device: Any = "cpu") -> ModelInputs:
    """One row for each of R samples: its prompt's last token and the completion but for its last, padded right."""
    width = max(len(s.completion) for s in samples)
    ids = [[s.prompt[-1], *s.completion[:-1], *[pad] * (width - len(s.completion))] for s in samples]
    row, starts = to_device([torch.tensor(ids), torch.tensor([len(s.prompt) - 1 for s in samples])], device)
    first = range(0, len(samples) * width, width)
    positions = starts[:, None] + torch.arange(width, device=device)
    states = prompts.states([s.prompt for s in samples])
    return ModelInputs(
        {"input_ids": row, "position_ids": positions, "prompt_states": states},
        width,
        index_tokens(samples, first, [place + 1 for place in first], device),
    )
