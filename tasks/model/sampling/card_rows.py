"""Rows of a sampling batch on a card: as many as its memory allows.

What a model leaves free is shared by the contexts' prefill, the keys and values of the rows, and their logits. With L
layers of h key-value heads of d numbers, hidden size H, intermediate size I, V tokens and b bytes of a number:

    a token of a context, prefilled    b (6 H + 3 I)
    a token of a row                   2 b L h d
    the logits of a row                16 V    as computed, in float32, and as they are drawn from
"""

from typing import Any

ROWS = 1024
"""Rows of a batch at most: the search keeps its completions batch by batch."""

SHARE = 0.25
"""Of the free memory for the contexts' prefill, and the same for the rows."""

LOGIT_BYTES = 16


def card_rows(model: Any, context: int, new_tokens: int, memory: int) -> int:
    """Rows of at most `context` tokens and `new_tokens` more, on a card with `memory` bytes; 1 or more."""
    config, weights = model.config.get_text_config(), list(model.parameters())
    free = SHARE * max(memory - sum(weight.numel() * weight.itemsize for weight in weights), 0)
    size, hidden = weights[0].itemsize, int(config.hidden_size)
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    queries = int(getattr(config, "num_attention_heads", 1))  # a recurrent model has none
    heads = int(getattr(config, "num_key_value_heads", None) or queries)
    width = int(getattr(config, "head_dim", None) or hidden // queries)
    token = 2 * size * int(config.num_hidden_layers) * heads * width
    row = (context + new_tokens) * token + LOGIT_BYTES * int(config.vocab_size)
    prefilled = max(context, 1) * size * (6 * hidden + 3 * inner)
    return max(min(ROWS, int(free // row), int(free // prefilled)), 1)
