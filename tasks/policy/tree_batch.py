"""Trees: the samples of one problem in one row, `[prompt | c1 | c2 | …]`, without padding between them.

A completion sees the prompt and itself, and its positions go on from the prompt's:

    ids        p0 p1 p2 a0 a1 b0 b1 b2
    positions   0  1  2  3  4  3  4  5

The last token of a completion predicts nothing and is left out. No token is computed twice or in vain, but attention
looks at all pairs of a row: best where completions are of unlike lengths.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.policy.packing import Group
from tasks.policy.reading import Aim, aim_at
from tasks.policy.running import Run

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TreeBatch:
    """B trees of at most S tokens."""

    ids: "Tensor"  # [B, S]
    positions: "Tensor"  # [B, S]
    attention: "Tensor"  # [B, 1, S, S] added to the scores: 0 = sees, lowest number = does not
    kept: int  # only the last `kept` positions of a tree predict a completion token
    aim: Aim

    @property
    def predictions(self) -> int:
        """How many there are in all pieces."""
        return len(self.ids) * self.kept

    def pieces(self, run: Run) -> list["Tensor"]:
        """What the model predicts at the kept positions, [B · kept, ·]."""
        predicted, _ = run(
            self.kept,
            input_ids=self.ids,
            attention_mask=self.attention,
            position_ids=self.positions,
            use_cache=False,
        )
        return [predicted.flatten(0, 1)]


def collate_trees(trees: Sequence[Group], pad: int, dtype: Any, device: Any = "cpu") -> TreeBatch:
    """Lay out B trees; their completions keep their order."""
    import torch

    laid = [_lay_out(tree) for tree in trees]
    width = max(len(ids) for ids, *_ in laid)
    kept = width - min(len(tree[0].prompt) for tree in trees) + 1
    ids = torch.full((len(trees), width), pad)
    positions = torch.zeros((len(trees), width), dtype=torch.long)
    branch = torch.full((len(trees), width), -1)  # 0 = prompt, k = completion k, -1 = padding
    aims: list[tuple[int, int, int, int]] = []
    first = 0
    for b, (tree, (tokens, places, branches, predicting)) in enumerate(zip(trees, laid, strict=True)):
        ids[b, : len(tokens)], positions[b, : len(tokens)] = torch.tensor(tokens), torch.tensor(places)
        branch[b, : len(tokens)] = torch.tensor(branches)
        sources = (b * kept + place - (width - kept) for place in predicting)
        written = ((s.completion[c], first + r, c) for r, s in enumerate(tree) for c in range(len(s.completion)))
        aims += [(source, *token) for source, token in zip(sources, written, strict=True)]
        first += len(tree)
    order = torch.arange(width)
    sees = (order[:, None] >= order) & ((branch[:, None, :] == 0) | (branch[:, :, None] == branch[:, None, :]))
    attention = torch.zeros(sees.shape, dtype=dtype).masked_fill_(~sees, torch.finfo(dtype).min)
    return TreeBatch(
        ids=ids.to(device),
        positions=positions.to(device),
        attention=attention[:, None].to(device),
        kept=kept,
        aim=aim_at(aims, [len(s.completion) for tree in trees for s in tree], device),
    )


def _lay_out(tree: Group) -> tuple[list[int], list[int], list[int], list[int]]:
    """Token, position and branch of each place of a tree, and the places that predict its completion tokens."""
    prompt = tree[0].prompt
    ids, positions, branches = list(prompt), list(range(len(prompt))), [0] * len(prompt)
    predicting: list[int] = []
    for number, sample in enumerate(tree, start=1):
        seen = sample.completion[:-1]
        predicting += [len(prompt) - 1, *range(len(ids), len(ids) + len(seen))]
        ids += seen
        positions += range(len(prompt), len(prompt) + len(seen))
        branches += [number] * len(seen)
    return ids, positions, branches, predicting
