"""From what a model predicts to a number for each completion token: log-probability and entropy.

A layout (rows, prefix, trees) gives predictions, in pieces, and an `Aim`: which prediction is meant for which token.
A prediction is a vector of logits; or, where so many logits would not fit in memory, the hidden state that the head
makes them of: then the head is applied to a few at a time and its logits are computed again for the gradient.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tasks.model.sample import Sample
from tasks.model.scoring.fused_logprobs import chosen

if TYPE_CHECKING:
    from torch import Tensor

Head = Callable[["Tensor"], "Tensor"]
"""Hidden states [m, H] → logits [m, V]."""


@dataclass(frozen=True)
class Aim:
    """The prediction of each of N completion tokens; R completions of at most C tokens."""

    sources: "Tensor"  # [N] ascending: place of the prediction among all pieces' rows; on the CPU
    targets: "Tensor"  # [N] the tokens
    places: "Tensor"  # [2, N] completion and place in it
    mask: "Tensor"  # [R, C] bool, True = a real completion token


@dataclass(frozen=True)
class Scored:
    """What R completions' tokens are worth to the model, each [R, C] and 0 where the mask is False; differentiable."""

    logprobs: "Tensor"
    entropies: "Tensor"  # of the distribution that each token was drawn from, in nats
    mask: "Tensor"  # bool


def aim_at(samples: Sequence[Sample], first: Sequence[int], rest: Sequence[int], device: Any) -> Aim:
    """Aim at the tokens of R samples' completions, given each one's `first` and `rest`: the place of the prediction of
    its first token, and of its second; those of its later tokens follow that."""
    import torch

    lengths = torch.tensor([len(s.completion) for s in samples])
    rows = torch.arange(len(samples)).repeat_interleave(lengths)
    columns = torch.arange(len(rows)) - (lengths.cumsum(0) - lengths)[rows]
    sources = torch.where(columns == 0, torch.tensor(first)[rows], torch.tensor(rest)[rows] + columns - 1)
    tokens = torch.tensor([token for s in samples for token in s.completion])
    order = sources.argsort(stable=True)
    return Aim(
        sources=sources[order],
        targets=tokens[order].to(device),
        places=torch.stack([rows, columns])[:, order].to(device),
        mask=(torch.arange(int(lengths.max())) < lengths[:, None]).to(device),
    )


def read(pieces: Sequence["Tensor"], aim: Aim, temperature: float, head: Head | None = None, most: int = 0) -> Scored:
    """The numbers of each token at `temperature`, from pieces [m, V]; with a head from [m, H], `most` at a time."""
    import torch

    parts = []
    for piece, rows, tokens in _aimed(_cut(pieces, most) if head else pieces, aim):
        if head is None:
            parts.append(chosen(piece, rows, tokens, temperature))
        else:
            again = partial(_by_head, head)
            numbers = torch.utils.checkpoint.checkpoint(again, piece, rows, tokens, temperature, use_reentrant=False)
            parts.append(numbers)
    logprobs, entropies = (_placed(torch.cat(values), aim) for values in zip(*parts, strict=True))
    return Scored(logprobs, entropies, aim.mask)


def _by_head(head: Head, hidden: "Tensor", rows: "Tensor", tokens: "Tensor", temperature: float) -> Any:
    return chosen(head(hidden), rows, tokens, temperature)


def _cut(pieces: Sequence["Tensor"], most: int) -> Iterator["Tensor"]:
    for piece in pieces:
        yield from (piece[start : start + most] for start in range(0, len(piece), most))


def _aimed(pieces: Iterator["Tensor"] | Sequence["Tensor"], aim: Aim) -> Iterator[tuple["Tensor", "Tensor", "Tensor"]]:
    """Each piece that some token aims at, with the rows in it [n] and the tokens [n]."""
    import torch

    start = 0
    for piece in pieces:
        end = start + len(piece)
        low, high = torch.searchsorted(aim.sources, torch.tensor([start, end])).tolist()
        if high > low:
            yield piece, (aim.sources[low:high] - start).to(piece.device), aim.targets[low:high]
        start = end


def _placed(values: "Tensor", aim: Aim) -> "Tensor":
    """Values [N] of the completion tokens as rows [R, C]."""
    return values.new_zeros(aim.mask.shape).index_put(tuple(aim.places), values)
