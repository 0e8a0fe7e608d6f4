"""Operations of the update of a group, which `benchmarks.gpu` divides by its seconds."""

from typing import Any


def update_flop(model: Any, prompt: int, completions: int, length: int) -> float:
    """4 N T + 12 L H P + 4 V H C, of a forward pass and a backward pass by the activations.

    N: weights of the layers without an adapter's, T: tokens (`prompt` once, `completions` of `length`), L: layers of
    width H, P: pairs of a token and one that it attends to, V: tokens of the vocabulary, C: tokens of the completions.
    """
    sizes = model.config
    named = model.named_parameters()
    weights: int = sum(w.numel() for name, w in named if ".layers." in name and "lora_" not in name)
    pairs = prompt**2 / 2 + completions * (length * prompt + length**2 / 2)
    attention: float = 12 * sizes.num_hidden_layers * sizes.hidden_size * pairs
    head: float = 4 * sizes.vocab_size * sizes.hidden_size * completions * length
    return 4.0 * weights * (prompt + completions * length) + attention + head
