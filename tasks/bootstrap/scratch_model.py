"""A randomly initialised Qwen2-architecture model, the base of `policy.base: scratch`."""

from typing import Any

HEAD_SIZE = 32  # width of an attention head
CONTEXT = 2048  # tokens of a prompt and its completion


def build_scratch_model(tokenizer: Any, hidden: int, layers: int, seed: int) -> Any:
    """A randomly initialised Qwen2 with tied embeddings; 1.9 M parameters at hidden 192, layers 4."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD_SIZE,
        num_key_value_heads=hidden // HEAD_SIZE,
        intermediate_size=hidden * 8 // 3 // 16 * 16,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        use_cache=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config).eval()
