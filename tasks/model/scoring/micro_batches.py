"""Plans of micro-batches: which samples are computed together, in which layout, and how many tokens that costs.

layout       completions of one problem        used where
packed       in one row with all others        the model's attention can be replaced
rows         in a row each, with the prompt    it cannot, or a packed sample would not fit in memory
completions  in a row each, alone              the prompts' keys and values are constants
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from tasks.model.decoding.growing_cache import common_prefix
from tasks.model.sample import Sample

RowLayout = Literal["packed", "rows", "completions"]

Group = list[Sample]
"""Samples with one prompt; one sample each unless packed."""

PADDING_SHARE = 0.1
"""Share of a micro-batch that may be padding between its groups: more is slower than another micro-batch."""

MIN_PADDING = 128
"""Tokens of padding that are always allowed: about the fixed cost of another micro-batch on small models."""

CONSTANT_SHARE = 0.03
"""Memory of a constant prompt's token, its keys and values in each row, as a share of that of a computed token."""


@dataclass(frozen=True)
class MicroBatch:
    """Samples that are computed together."""

    layout: RowLayout
    groups: list[Group]

    @property
    def samples(self) -> list[Sample]:
        """In the order in which they are scored."""
        return [s for group in self.groups for s in group]

    @property
    def tokens(self) -> int:
        """Tokens that the model computes, padding included."""
        return count_tokens(self.layout, self.groups)


@dataclass(frozen=True)
class Room:
    """The most that a micro-batch may hold."""

    layout: RowLayout
    tokens: int
    pairs: int | None  # in the attention of packed groups

    def holds(self, groups: Sequence[Group]) -> bool:
        few = self.pairs is None or count_attention_pairs(groups) <= self.pairs
        return few and count_tokens(self.layout, groups) <= self.tokens


def make_micro_batches(
    layout: RowLayout, samples: Sequence[Sample], tokens: int, pairs: int | None = None
) -> list[MicroBatch]:
    """Micro-batches of similar lengths with at most `tokens` tokens, padding included (or one sample).

    Packed ones also have at most `pairs` pairs of tokens in their attention (or one sample). The order is a function of
    the samples alone. Longest first, so that an out-of-memory error comes at once.
    """
    room = Room(layout, tokens, pairs if layout == "packed" else None)
    groups = sorted(
        _split_by_prompt(room, samples),
        key=lambda group: (-count_tokens(layout, [group]), group[0].problem_id, group[0].member),
    )
    return [MicroBatch(layout, filled) for filled in _fill(room, groups)]


def count_tokens(layout: RowLayout, groups: Sequence[Group]) -> int:
    """Tokens that the model computes for these groups together, padding included."""
    if layout == "packed":
        alone = sum(len(group[0].prompt) + sum(len(s.completion) - 1 for s in group) for group in groups)
        return alone - (len(groups) - 1) * common_prefix([group[0].prompt for group in groups])
    prompt, completion = _max_lengths(groups)
    if layout == "completions":
        prompt = round(CONSTANT_SHARE * prompt)
    return sum(map(len, groups)) * (prompt + completion)


def count_attention_pairs(groups: Sequence[Group]) -> int:
    """Pairs of tokens in the attention of these groups, packed together."""
    prompt, completion = _max_lengths(groups)
    common = common_prefix([group[0].prompt for group in groups])
    chunks = sum(len(cut_into_chunks([len(s.completion) - 1 for s in group], completion - 1)) for group in groups)
    return common**2 + len(groups) * (prompt - common) * prompt + chunks * (completion - 1) * (prompt + completion - 1)


def cut_into_chunks(lengths: Sequence[int], room: int) -> list[list[tuple[int, int]]]:
    """Completions, as (number, length), in chunks of at most `room` tokens; in order, at least one chunk."""
    chunks: list[list[tuple[int, int]]] = [[]]
    left = room
    for number, length in enumerate(lengths):
        if length > left:
            chunks.append([])
            left = room
        chunks[-1].append((number, length))
        left -= length
    return chunks


def _max_lengths(groups: Sequence[Group]) -> tuple[int, int]:
    """Tokens of the longest prompt and of the longest completion."""
    return max(len(g[0].prompt) for g in groups), max(len(s.completion) for g in groups for s in g)


def _split_by_prompt(room: Room, samples: Sequence[Sample]) -> Iterator[Group]:
    """Samples with one prompt together, shorter completions first, as many as there is room for."""
    order = sorted(samples, key=lambda s: (s.prompt, len(s.completion), s.problem_id, s.member))
    for _, same in groupby(order, key=lambda s: s.prompt):
        group: Group = []
        for sample in same:
            if group and (room.layout != "packed" or not room.holds([[*group, sample]])):
                yield group
                group = []
            group.append(sample)
        yield group


def _fill(room: Room, groups: Sequence[Group]) -> Iterator[list[Group]]:
    batch: list[Group] = []
    for group in groups:
        if batch and not _fits(room, [*batch, group]):
            yield batch
            batch = []
        batch.append(group)
    if batch:
        yield batch


def _fits(room: Room, groups: Sequence[Group]) -> bool:
    total = count_tokens(room.layout, groups)
    padding = total - sum(count_tokens(room.layout, [group]) for group in groups)  # negative for a common beginning
    return room.holds(groups) and padding <= max(PADDING_SHARE * total, MIN_PADDING)
