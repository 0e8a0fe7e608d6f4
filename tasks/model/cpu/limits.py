"""Limits of what a CPU computes at once: constants, as more at once is slower there."""

from dataclasses import dataclass
from typing import Any, Self

GIBIBYTE = 2**30

TOKENS = 2048
"""Tokens of a micro-batch, padding included."""

LOGITS_BYTES = GIBIBYTE
"""A micro-batch whose logits take more computes them in chunks: slower, as the backward pass computes them again."""

LOGITS_COPIES = 3
"""Copies of the logits that are held at once: as computed, scaled in float32, and their gradient."""

WEIGHTS_BYTES = GIBIBYTE
"""A packed micro-batch keeps its attention weights, which may take so much: else it is made smaller."""

ROWS = 384
"""Rows of a sampling batch."""


@dataclass(frozen=True, order=True)
class Limits:
    """Those of a CPU; `config` is a model's, `itemsize` the bytes of one of its weights."""

    @classmethod
    def of(cls, _device: Any) -> Self:
        return cls()

    def logits(self, config: Any) -> int:
        """Predictions whose logits may be held at once."""
        return logits_in(LOGITS_BYTES, config)

    def attention_pairs(self, config: Any, itemsize: int) -> int:
        """Pairs of tokens in the attention of a packed micro-batch: the weights of all layers are kept."""
        return WEIGHTS_BYTES // (int(config.num_attention_heads) * int(config.num_hidden_layers) * itemsize)

    def tokens(self, _config: Any, _itemsize: int, _model: int, _checkpointing: bool) -> int:
        """Tokens of a micro-batch; `_model`: its bytes."""
        return TOKENS

    def completion_tokens(self, _config: Any, _itemsize: int, _longest: int, tokens: int) -> int:
        """The same after constant prompts, for samples of at most `longest` tokens: `tokens` at most."""
        return tokens

    def rows(self, _model: Any, _context: int, _new_tokens: int) -> int:
        """Rows of a sampling batch, of at most `context` tokens and `new_tokens` more."""
        return ROWS


def logits_in(room: int, config: Any) -> int:
    """Predictions whose logits, in float32, take `room` bytes; 1 or more."""
    return max(room // (LOGITS_COPIES * 4 * int(config.vocab_size)), 1)
