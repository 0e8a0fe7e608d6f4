"""Layout of completions alone, a row each: the keys and values of their prompts are constants.

Values are those of the other layouts. The gradient is that of the completion's positions: none flows into the prompt's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.model.sample import Sample
from tasks.model.scoring.hf_model import Forward
from tasks.model.scoring.prompt_cache import PromptCache, PromptStates
from tasks.model.scoring.token_scores import TokenIndex, index_tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class CompletionBatch:
    """R completions."""

    ids: "Tensor"  # [R, C] the prompt's last token and the completion but for its last, padded on the right
    positions: "Tensor"  # [R, C]
    states: PromptStates
    index: TokenIndex

    @property
    def predictions(self) -> int:
        """Predictions in all chunks."""
        return self.ids.numel()

    def chunks(self, forward: Forward) -> list["Tensor"]:
        """The model's predictions for each place of the completions, [R · C, ·]."""
        predicted = forward(
            self.ids.shape[1],
            input_ids=self.ids,
            position_ids=self.positions,
            prompt_states=self.states,
            use_cache=False,
        )
        return [predicted.flatten(0, 1)]


def collate_completions(
    samples: Sequence[Sample], prompts: PromptCache, pad: int, device: Any = "cpu"
) -> CompletionBatch:
    """One row for each of R samples."""
    import torch

    width = max(len(s.completion) for s in samples)
    ids = [[s.prompt[-1], *s.completion[:-1], *[pad] * (width - len(s.completion))] for s in samples]
    starts = torch.tensor([len(s.prompt) - 1 for s in samples], device=device)
    first = range(0, len(samples) * width, width)
    return CompletionBatch(
        torch.tensor(ids, device=device),
        starts[:, None] + torch.arange(width, device=device),
        prompts.states([s.prompt for s in samples]),
        index_tokens(samples, first, [place + 1 for place in first], device),
    )
