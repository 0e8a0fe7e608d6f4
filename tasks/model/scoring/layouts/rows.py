"""Rows: a padded row for each completion, with its prompt. What every model computes rightly, and what others are
checked against."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.model.sample import Sample
from tasks.model.scoring.hf_model import Run
from tasks.model.scoring.padded_rows import Batch, collate
from tasks.model.scoring.token_scores import Aim, aim_at

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class RowBatch:
    """R rows."""

    batch: Batch
    aim: Aim

    @property
    def predictions(self) -> int:
        """How many there are in all pieces."""
        return self.batch.completion.numel()

    def pieces(self, run: Run) -> list["Tensor"]:
        """What the model predicts for each place of the completions, [R · C, ·]."""
        predicted, _ = run(
            self.batch.completion.shape[1] + 1,
            input_ids=self.batch.ids,
            attention_mask=self.batch.attention,
            position_ids=self.batch.positions,
            use_cache=False,
        )
        return [predicted[:, :-1].flatten(0, 1)]


def collate_rows(samples: Sequence[Sample], pad: int, device: Any = "cpu") -> RowBatch:
    """Lay out a row for each of R samples."""
    batch = collate([list(s.prompt) for s in samples], [list(s.completion) for s in samples], pad, device)
    rows, width = batch.completion.shape
    first = range(0, rows * width, width)
    return RowBatch(batch, aim_at(samples, first, [place + 1 for place in first], device))
