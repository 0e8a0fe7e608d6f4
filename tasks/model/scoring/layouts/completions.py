"""Layout of completions alone, a row each: the keys and values of their prompt are constants from a cache.

Values are those of the other layouts. The gradient is that of the completion's positions: none flows into the prompt's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.model.sample import Sample
from tasks.model.scoring.hf_model import Forward
from tasks.model.scoring.prompt_cache import PromptCache
from tasks.model.scoring.token_scores import TokenIndex, index_tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class CompletionBatch:
    """R completions of one prompt."""

    ids: "Tensor"  # [R, C] the prompt's last token and the completion but for its last, padded on the right
    cache: Any  # of the prompt but for its last token, for R rows
    index: TokenIndex

    @property
    def predictions(self) -> int:
        """Predictions in all chunks."""
        return self.ids.numel()

    def chunks(self, forward: Forward) -> list["Tensor"]:
        """The model's predictions for each place of the completions, [R · C, ·]; once, because it fills the cache."""
        predicted = forward(self.ids.shape[1], input_ids=self.ids, past_key_values=self.cache, use_cache=True)
        return [predicted.flatten(0, 1)]


def collate_completions(
    samples: Sequence[Sample], prompts: PromptCache, pad: int, device: Any = "cpu"
) -> CompletionBatch:
    """One row for each of R samples, which have the same prompt."""
    import torch

    width = max(len(s.completion) for s in samples)
    ids = [[s.prompt[-1], *s.completion[:-1], *[pad] * (width - len(s.completion))] for s in samples]
    first = range(0, len(samples) * width, width)
    index = index_tokens(samples, first, [place + 1 for place in first], device)
    return CompletionBatch(torch.tensor(ids, device=device), prompts.expand(samples[0].prompt, len(samples)), index)
