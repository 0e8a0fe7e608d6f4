"""Limits of what a CUDA card computes at once: shares of its memory.

Of the whole, not of what is free: a plan of micro-batches is a function of the card. With L layers of h key-value heads
of d numbers, hidden size H, intermediate size I, V tokens and b bytes of a weight, these are the bytes of

    a token that is kept for the backward pass    L b (10 H + 4 I)    products, norms and gates of each layer
                                    checkpointed  b H L + b (10 H + 4 I)
    a token of a context that is prefilled        b (6 H + 3 I)
    a token of a row that is sampled              2 b L h d           keys and values
    the logits of such a row                      16 V                as computed, in float32, and as they are drawn

The first is 1.4 MB for a model of 0.5B in bfloat16 (Korthikanti et al. 2022, arXiv:2205.05198, section 4.1, for gated
layers, without the attention weights), and was measured on an H200.
"""

from dataclasses import dataclass
from typing import Any, Self

from tasks.model.cpu.limits import GIBIBYTE, Limits, logits_in

KEPT_SHARE, LOGITS_SHARE, MASK_SHARE, WEIGHTS_SHARE = 2, 8, 16, 4
"""A card's memory over that of: what a micro-batch keeps, after the model; its logits; its attention mask; the
attention weights of completions after constant prompts."""

LOGITS_BYTES = 2 * GIBIBYTE
"""Most that logits take: 1,178 predictions of 151,936 tokens, enough to keep the card busy with the head."""

STEP, MOST_TOKENS = 1024, 16_384
"""A micro-batch has a multiple of STEP tokens, and at most MOST_TOKENS: on an H200 a model of 0.5B computes as many in
0.4 s and needs 0.27 s to start the operations, so that more would only take memory."""

ROWS = 1024
"""Rows of a sampling batch at most: the search keeps its completions batch by batch."""

SAMPLING_SHARE = 0.25
"""Of the free memory for the prefill of a sampling batch's contexts, and the same for its rows."""

SAMPLED_LOGIT_BYTES = 16


@dataclass(frozen=True, order=True)
class CardLimits(Limits):
    """Those of a card with `memory` bytes."""

    memory: int

    @classmethod
    def of(cls, device: Any) -> Self:
        """In whole gibibytes: cards of one kind report some megabytes more or less."""
        import torch

        return cls(int(torch.cuda.get_device_properties(device).total_memory) // GIBIBYTE * GIBIBYTE)

    def logits(self, config: Any) -> int:
        return logits_in(min(self.memory // LOGITS_SHARE, LOGITS_BYTES), config)

    def attention_pairs(self, config: Any, itemsize: int) -> int:
        """By the mask, which all layers share: fused kernels keep no weights."""
        heads = int(config.num_attention_heads)
        repeats = heads // (getattr(config, "num_key_value_heads", None) or heads)
        return self.memory // MASK_SHARE // (1 + repeats * itemsize)

    def tokens(self, config: Any, itemsize: int, model: int, checkpointing: bool) -> int:
        hidden, layers = int(config.hidden_size), int(config.num_hidden_layers)
        layer = itemsize * (10 * hidden + 4 * _intermediate_size(config))
        kept = itemsize * hidden * layers + layer if checkpointing else layers * layer
        return min(_round(max(self.memory - model, 0) // KEPT_SHARE // kept), MOST_TOKENS)

    def completion_tokens(self, config: Any, itemsize: int, longest: int, tokens: int) -> int:
        """Attention weights are kept in float32 and in the model's type."""
        weights = longest * int(config.num_attention_heads) * int(config.num_hidden_layers) * (4 + itemsize)
        return min(tokens, _round(self.memory // WEIGHTS_SHARE // weights))

    def rows(self, model: Any, context: int, new_tokens: int) -> int:
        config, weights = model.config.get_text_config(), list(model.parameters())
        free = SAMPLING_SHARE * max(self.memory - sum(weight.numel() * weight.itemsize for weight in weights), 0)
        size, hidden = weights[0].itemsize, int(config.hidden_size)
        queries = int(getattr(config, "num_attention_heads", 1))  # a recurrent model has none
        heads = int(getattr(config, "num_key_value_heads", None) or queries)
        width = int(getattr(config, "head_dim", None) or hidden // queries)
        token = 2 * size * int(config.num_hidden_layers) * heads * width
        row = (context + new_tokens) * token + SAMPLED_LOGIT_BYTES * int(config.vocab_size)
        prefilled = max(context, 1) * size * (6 * hidden + 3 * _intermediate_size(config))
        return max(min(ROWS, int(free // row), int(free // prefilled)), 1)


def _intermediate_size(config: Any) -> int:
    return int(getattr(config, "intermediate_size", None) or 4 * int(config.hidden_size))


def _round(tokens: int) -> int:
    return max(tokens // STEP, 1) * STEP
