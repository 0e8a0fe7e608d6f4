"""Limits of a micro-batch: tokens, logits and attention that fit in a device's memory.

On a CPU, where larger ones are slower, the limits are constants. On a CUDA card they are shares of its memory, of the
whole, not of what is free: the plan of micro-batches is a function of the card. Bytes that a token keeps for the
backward pass, with H the hidden size, I the intermediate size, b the bytes of a weight:

    a layer          b (10 H + 4 I)    its products, norms and gates
    all L layers     L times that; checkpointed b H L + that of one layer

(Korthikanti et al. 2022, arXiv:2205.05198, section 4.1, for gated layers, without the attention weights.) That is
1.4 MB for a model of 0.5B in bfloat16, and was measured on an H200.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

GIBIBYTE = 2**30

TOKENS = 2048
"""Tokens of a micro-batch on a CPU, padding included."""

LOGITS_BYTES = GIBIBYTE
"""A micro-batch whose logits take more computes them in chunks: slower, as the backward pass computes them again."""

WEIGHTS_BYTES = GIBIBYTE
"""A packed micro-batch keeps its attention weights on a CPU, which may take so much: else it is made smaller."""

LOGITS_COPIES = 3
"""Copies of the logits that are held at once: as computed, scaled in float32, and their gradient."""

KEPT_SHARE, LOGITS_SHARE, MASK_SHARE, WEIGHTS_SHARE = 2, 8, 16, 4
"""A card's memory over that of: what a micro-batch keeps, after the model; its logits; its attention mask; the
attention weights of completions after constant prompts."""

CARD_LOGITS_BYTES = 2 * GIBIBYTE
"""Most that logits take on a card: 1,178 predictions of 151,936 tokens, enough to keep it busy with the head."""

STEP, MOST_TOKENS = 1024, 16_384
"""A micro-batch on a card has a multiple of STEP tokens, and at most MOST_TOKENS: on an H200 a model of 0.5B computes
as many in 0.4 s and needs 0.27 s to start the operations, so that more would only take memory."""


def card_memory(device: "torch.device") -> int | None:
    """Bytes of a CUDA card, in whole gibibytes; None for other devices."""
    import torch

    if device.type != "cuda":
        return None
    return int(torch.cuda.get_device_properties(device).total_memory) // GIBIBYTE * GIBIBYTE


def max_logits(config: Any, memory: int | None) -> int:
    """Predictions whose logits may be held at once."""
    room = LOGITS_BYTES if memory is None else min(memory // LOGITS_SHARE, CARD_LOGITS_BYTES)
    return max(room // (LOGITS_COPIES * 4 * int(config.vocab_size)), 1)


def max_attention_pairs(config: Any, itemsize: int, memory: int | None) -> int:
    """Of a packed micro-batch: on a CPU their weights fit in memory, on a card the mask that all layers share."""
    heads = int(config.num_attention_heads)
    if memory is None:
        return WEIGHTS_BYTES // (heads * int(config.num_hidden_layers) * itemsize)
    repeats = heads // (getattr(config, "num_key_value_heads", None) or heads)
    return memory // MASK_SHARE // (1 + repeats * itemsize)


def micro_batch_tokens(config: Any, itemsize: int, memory: int | None, model: int, checkpointing: bool) -> int:
    """Tokens of a micro-batch: on a card as many as there is room for after the model's bytes."""
    if memory is None:
        return TOKENS
    hidden, layers = int(config.hidden_size), int(config.num_hidden_layers)
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    layer = itemsize * (10 * hidden + 4 * inner)
    kept = itemsize * hidden * layers + layer if checkpointing else layers * layer
    room = max(memory - model, 0) // KEPT_SHARE // kept
    return min(_round(room), MOST_TOKENS)


def max_completion_tokens(config: Any, itemsize: int, memory: int, longest: int) -> int:
    """Of a micro-batch of completions after constant prompts, which keeps attention weights in float32 and in the
    model's type: for samples of at most `longest` tokens."""
    weights = longest * int(config.num_attention_heads) * int(config.num_hidden_layers) * (4 + itemsize)
    return _round(memory // WEIGHTS_SHARE // weights)


def _round(tokens: int) -> int:
    return max(tokens // STEP, 1) * STEP
