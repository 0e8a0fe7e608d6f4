"""Trees: the samples of one problem in one row, `[prompt | c1 | c2 | …]`, without padding between them.

A completion sees the prompt and itself, and its positions go on from the prompt's:

    ids        p0 p1 p2 a0 a1 b0 b1 b2
    positions   0  1  2  3  4  3  4  5

The last token of a completion predicts nothing and is left out. No token is computed twice, but attention looks at all
pairs of a row, through a mask: for completions of unlike lengths, where the model's attention cannot be told more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.model.scoring.hf_model import Run
from tasks.model.scoring.micro_batches import Group, size
from tasks.model.scoring.token_scores import Aim, aim_at

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

    width = max(map(size, trees))
    kept = width - min(len(tree[0].prompt) for tree in trees) + 1
    ids, positions, branches = (
        torch.tensor([row + [free] * (width - len(row)) for row in rows])
        for rows, free in zip(zip(*map(_lay_out, trees), strict=True), (pad, 0, -1), strict=True)
    )
    first: list[int] = []
    rest: list[int] = []
    for b, tree in enumerate(trees):
        start, place = (b + 1) * kept - width, len(tree[0].prompt)
        for sample in tree:
            first.append(start + len(tree[0].prompt) - 1)
            rest.append(start + place)
            place += len(sample.completion) - 1
    order = torch.arange(width)
    sees = (order[:, None] >= order) & ((branches[:, None, :] == 0) | (branches[:, :, None] == branches[:, None, :]))
    attention = torch.zeros(sees.shape, dtype=dtype).masked_fill_(~sees, torch.finfo(dtype).min)
    return TreeBatch(
        ids=ids.to(device),
        positions=positions.to(device),
        attention=attention[:, None].to(device),
        kept=kept,
        aim=aim_at([s for tree in trees for s in tree], first, rest, device),
    )


def _lay_out(tree: Group) -> tuple[list[int], list[int], list[int]]:
    """Token, position and branch (0 = prompt, k = completion k) of each place of a tree."""
    prompt = tree[0].prompt
    ids, positions, branches = list(prompt), list(range(len(prompt))), [0] * len(prompt)
    for number, sample in enumerate(tree, start=1):
        seen = sample.completion[:-1]
        ids += seen
        positions += range(len(prompt), len(prompt) + len(seen))
        branches += [number] * len(seen)
    return ids, positions, branches
