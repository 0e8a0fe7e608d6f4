"""Which samples are computed together, and in which layout: plans of micro-batches, and what they would cost.

layout   what the completions of one problem are           best where
packed   in one row with all others (layouts/packed.py)     the model's attention can be told to
trees    one row without padding (layouts/tree.py)          it cannot, and their lengths are unlike
prefix   rows behind one cached prompt (layouts/prefix.py)  it cannot, and they are long or alike
rows     rows with a prompt each (layouts/rows.py)          the model computes neither of these rightly
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from tasks.model.sample import Sample

Layout = Literal["packed", "trees", "prefix", "rows"]

Group = list[Sample]
"""Samples with one prompt; in rows each alone."""

TREE_TOKENS = 1024
"""A longer tree is cut in two: its attention costs the square of its length."""

PADDING = 0.1
"""Share of a micro-batch that may be padding between its groups: more is slower than another micro-batch."""

START = 128
"""Tokens of padding that are always allowed: about what another micro-batch costs for its own sake, on small models."""


@dataclass(frozen=True)
class MicroBatch:
    """Samples that are computed together."""

    layout: Layout
    groups: list[Group]

    @property
    def samples(self) -> list[Sample]:
        """In the order of the completions that are computed."""
        return [s for group in self.groups for s in group]

    @property
    def tokens(self) -> int:
        """Tokens that the model computes, padding included."""
        return tokens_of(self.layout, self.groups)


def packed(layout: Layout, samples: Sequence[Sample], tokens: int) -> list[MicroBatch]:
    """Micro-batches of like length of at most `tokens` tokens, padding included (or one sample).

    The order depends on nothing but the samples. Longest first, so that what does not fit in memory fails at once.
    """
    pieces = sorted(_pieces(layout, samples, tokens), key=lambda piece: _place(layout, piece))
    return [MicroBatch(layout, groups) for groups in _filled(layout, pieces, tokens)]


def tokens_of(layout: Layout, groups: Sequence[Group]) -> int:
    """Tokens that the model computes for these groups together, padding included."""
    prompt, completion = _longest(groups)
    count = sum(map(len, groups))
    if layout == "packed":
        return sum(map(size, groups))
    if layout == "trees":
        return len(groups) * max(map(size, groups))
    if layout == "prefix":
        return len(groups) * prompt + count * (completion - 1)
    return count * (prompt + completion)


def pairs_of(layout: Layout, groups: Sequence[Group]) -> int:
    """Pairs of tokens that attention looks at for these groups together."""
    prompt, completion = _longest(groups)
    count = sum(map(len, groups))
    if layout == "packed":
        chunks = sum(len(cut([len(s.completion) - 1 for s in group], completion - 1)) for group in groups)
        return len(groups) * prompt**2 + chunks * (completion - 1) * (prompt + completion - 1)
    if layout == "trees":
        return len(groups) * max(map(size, groups)) ** 2
    if layout == "prefix":
        return len(groups) * prompt**2 + count * (completion - 1) * (prompt + completion - 1)
    return count * (prompt + completion) ** 2


def size(tree: Group) -> int:
    """Tokens of a tree: the prompt once, and each completion but its last token."""
    return len(tree[0].prompt) + sum(len(s.completion) - 1 for s in tree)


def cut(lengths: Sequence[int], room: int) -> list[list[tuple[int, int]]]:
    """Completions, by number and length, in chunks of at most `room` tokens; in order, at least one chunk."""
    chunks: list[list[tuple[int, int]]] = [[]]
    left = room
    for number, length in enumerate(lengths):
        if length > left:
            chunks.append([])
            left = room
        chunks[-1].append((number, length))
        left -= length
    return chunks


def _longest(groups: Sequence[Group]) -> tuple[int, int]:
    """Tokens of the longest prompt and of the longest completion."""
    return max(len(g[0].prompt) for g in groups), max(len(s.completion) for g in groups for s in g)


def _pieces(layout: Layout, samples: Sequence[Sample], tokens: int) -> Iterator[Group]:
    """Samples with one prompt together, shorter completions first, as many as fit in a micro-batch."""
    most = min(tokens, TREE_TOKENS) if layout == "trees" else tokens
    order = sorted(samples, key=lambda s: (s.prompt, len(s.completion), s.problem_id, s.member))
    for _, same in groupby(order, key=lambda s: s.prompt):
        piece: Group = []
        for sample in same:
            if piece and (layout == "rows" or tokens_of(layout, [[*piece, sample]]) > most):
                yield piece
                piece = []
            piece.append(sample)
        yield piece


def _place(layout: Layout, piece: Group) -> tuple[int, int, str, int]:
    prompt, completion = _longest([piece])
    first = piece[0].problem_id, piece[0].member
    if layout == "prefix":
        return -completion, -prompt, *first
    return -(size(piece) if layout in ("packed", "trees") else prompt + completion), 0, *first


def _filled(layout: Layout, pieces: Sequence[Group], tokens: int) -> Iterator[list[Group]]:
    groups: list[Group] = []
    for piece in pieces:
        if groups and not _fit(layout, [*groups, piece], tokens):
            yield groups
            groups = []
        groups.append(piece)
    if groups:
        yield groups


def _fit(layout: Layout, groups: Sequence[Group], tokens: int) -> bool:
    whole = tokens_of(layout, groups)
    padding = whole - sum(tokens_of(layout, [group]) for group in groups)
    return whole <= tokens and padding <= max(PADDING * whole, START)
