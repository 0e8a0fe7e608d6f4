"""Reference layout: one padded row per sample, prompt included. Every model computes it correctly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.model.sample import Sample
from tasks.model.scoring.hf_model import Forward
from tasks.model.scoring.padded_rows import PaddedBatch, collate
from tasks.model.scoring.token_scores import TokenIndex, index_tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class RowBatch:
    """R rows."""

    batch: PaddedBatch
    index: TokenIndex

    @property
    def predictions(self) -> int:
        """Predictions in all chunks."""
        return self.batch.completion.numel()

    def chunks(self, forward: Forward) -> list["Tensor"]:
        """The model's predictions for each place of the completions, [R · C, ·]."""
        predicted = forward(
            self.batch.completion.shape[1] + 1,
            input_ids=self.batch.ids,
            attention_mask=self.batch.attention,
            position_ids=self.batch.positions,
            use_cache=False,
        )
        return [predicted[:, :-1].flatten(0, 1)]


def collate_rows(samples: Sequence[Sample], pad: int, device: Any = "cpu") -> RowBatch:
    """One row for each of R samples."""
    batch = collate([list(s.prompt) for s in samples], [list(s.completion) for s in samples], pad, device)
    rows, width = batch.completion.shape
    first = range(0, rows * width, width)
    return RowBatch(batch, index_tokens(samples, first, [place + 1 for place in first], device))
