"""Log-probability and entropy of each completion token, from a model's predictions.

A layout gives predictions, and a `TokenIndex`: which prediction is for which token. A prediction is a vector of logits
or, where all logits would not fit in memory, a hidden state: then the head is applied to a few at a time, and their
logits are computed again in the backward pass.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tasks.model.hf_model import Head
from tasks.model.sample import Sample
from tasks.model.scoring.device_copy import to_device
from tasks.model.scoring.logprobs import kept_logprobs_and_entropies, logprobs_and_entropies, pad_kept

Temperatures = float | Tensor
"""One number, or one for each of N tokens, in the order of their index."""


@dataclass(frozen=True)
class TokenIndex:
    """The prediction of each of N completion tokens; R completions of at most C tokens."""

    rows: Tensor  # [N] ascending: place of the prediction among all
    cpu_rows: Tensor  # [N] the same on the CPU
    tokens: Tensor  # [N]
    places: Tensor  # [2, N] completion and place in it
    mask: Tensor  # [R, C] bool, True = a real completion token
    kept: Tensor | None = None  # [N, K] the set that each token was drawn from; None: all from the whole vocabulary


@dataclass(frozen=True)
class TokenScores:
    """Scores of the tokens of R completions, each [R, C] and 0 where the mask is False; differentiable."""

    logprobs: Tensor
    entropies: Tensor  # of the distribution that each token was drawn from, in nats
    mask: Tensor  # bool
    values: Tensor | None = None  # by the scorer's value head, if it has one, of the prefix before each token


@dataclass(frozen=True)
class Targets:
    """n tokens that a chunk of predictions [m, ·] is scored at."""

    rows: Tensor  # [n] the prediction of each
    tokens: Tensor  # [n]
    kept: Tensor | None  # [n, K]
    temperature: Temperatures

    def where(self, chosen: slice | Tensor) -> "Targets":
        """A part of the tokens."""
        kept = None if self.kept is None else self.kept[chosen]
        temperature = self.temperature if isinstance(self.temperature, int | float) else self.temperature[chosen]
        return Targets(self.rows[chosen], self.tokens[chosen], kept, temperature)


def index_tokens(samples: Sequence[Sample], first: Sequence[int], rest: Sequence[int], device: Any) -> TokenIndex:
    """Index of the tokens of R samples' completions. `first` and `rest` are the places of the predictions of each
    completion's first and second token; those of its later tokens follow the second."""
    lengths = torch.tensor([len(s.completion) for s in samples])
    completions = torch.arange(len(samples)).repeat_interleave(lengths)
    columns = torch.arange(len(completions)) - (lengths.cumsum(0) - lengths)[completions]
    # A packed row has a prompt once: the prediction of its completions' first tokens is apart from their others.
    rows = torch.where(columns == 0, torch.tensor(first)[completions], torch.tensor(rest)[completions] + columns - 1)
    tokens = torch.tensor([token for s in samples for token in s.completion])
    order = rows.argsort(stable=True)  # ascending, so that a chunk of predictions has a range of them
    rows = rows[order]
    parts = [rows, tokens[order], torch.stack([completions, columns])[:, order], lengths]
    if any(s.kept for s in samples):
        parts.append(pad_kept([kept for s in samples for kept in s.kept or [()] * len(s.completion)])[order])
    moved, tokens, places, ends, *sets = to_device(parts, device)
    mask = torch.arange(int(lengths.max()), device=device) < ends[:, None]
    return TokenIndex(moved, rows, tokens, places, mask, *sets)


def score_tokens(
    predicted: Tensor, index: TokenIndex, temperature: Temperatures, head: Head | None = None, most: int = 0
) -> TokenScores:
    """Scores at `temperature` from logits [m, V]; with a head from hidden states [m, H], `most` at a time."""
    targets = Targets(index.rows, index.tokens, index.kept, temperature)
    if head is None:
        logprobs, entropies = _score(predicted, targets)
    else:
        compute = partial(_apply_head, head)
        parts = [
            torch.utils.checkpoint.checkpoint(compute, *chunk, use_reentrant=False)
            for chunk in _chunks(predicted, targets, index.cpu_rows, most)
        ]
        logprobs, entropies = map(torch.cat, zip(*parts, strict=True))
    return TokenScores(_scatter(logprobs, index), _scatter(entropies, index), index.mask)


def score_values(hidden: Tensor, index: TokenIndex, value_head: Any) -> Tensor:
    """The value of the prefix before each token, from hidden states [m, H]; [R, C], 0 where padded."""
    chosen = hidden[index.rows].to(value_head.weight.dtype)
    return _scatter(value_head(chosen)[:, 0], index)


def _apply_head(head: Head, hidden: Tensor, targets: Targets) -> Any:
    return _score(head(hidden), targets)


def _score(logits: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies [n], of each token over its kept set or, if it has none, over all tokens."""
    if targets.kept is None:
        return logprobs_and_entropies(logits, targets.rows, targets.tokens, targets.temperature)
    known = targets.kept[:, 0] >= 0
    drawn, rest = targets.where(known), targets.where(~known)  # from a kept set; from all tokens
    truncated = kept_logprobs_and_entropies(logits, drawn.rows, drawn.tokens, targets.kept[known], drawn.temperature)
    if known.all():
        return truncated
    whole = logprobs_and_entropies(logits, rest.rows, rest.tokens, rest.temperature)
    order = torch.cat([known.nonzero()[:, 0], (~known).nonzero()[:, 0]]).argsort()
    logprobs, entropies = (torch.cat(parts)[order] for parts in zip(truncated, whole, strict=True))
    return logprobs, entropies


def _chunks(predicted: Tensor, targets: Targets, cpu_rows: Tensor, most: int) -> Iterator[tuple[Tensor, Targets]]:
    """Each chunk of `most` predictions that predicts some token, with these tokens."""
    for start in range(0, len(predicted), most):
        low, high = torch.searchsorted(cpu_rows, torch.tensor([start, start + most])).tolist()
        if high > low:
            chosen = targets.where(slice(low, high))
            yield predicted[start : start + most], replace(chosen, rows=chosen.rows - start)


def _scatter(values: Tensor, index: TokenIndex) -> Tensor:
    """Values [N] of the completion tokens as rows [R, C]."""
    return values.new_zeros(index.mask.shape).index_put(tuple(index.places), values)
