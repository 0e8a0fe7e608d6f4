"""A GGUF file of a tiny Llama with a byte-level tokenizer, made by llama.cpp's own Python package."""

from pathlib import Path

HIDDEN, FEED_FORWARD, LAYERS, HEADS = 32, 64, 2, 2
END = "<|end|>"


def write_gguf(file: Path, seed: int = 0, without: str = "none", architecture: str = "llama") -> Path:
    """Weights in blocks of 4 bits where they can be; `without`: a tensor that is left out, `blk.0.attn_q.weight`."""
    import gguf
    import numpy as np
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    tokens = [*bytes_to_unicode().values(), "Ġs", END]
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_name("Tiny")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 1) + [3])  # normal, and one control token
    writer.add_token_merges(["Ġ s"])
    writer.add_eos_token_id(len(tokens) - 1)
    shapes = {"token_embd.weight": (len(tokens), HIDDEN), "output_norm.weight": (HIDDEN,)}
    key = HIDDEN // HEADS
    for layer in range(LAYERS):
        of_layer = {"attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,), "attn_q": (HIDDEN, HIDDEN)}
        of_layer |= {"attn_k": (key, HIDDEN), "attn_v": (key, HIDDEN), "attn_output": (HIDDEN, HIDDEN)}
        of_layer |= {"ffn_gate": (FEED_FORWARD, HIDDEN), "ffn_up": (FEED_FORWARD, HIDDEN)}
        of_layer |= {"ffn_down": (HIDDEN, FEED_FORWARD)}
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    random = np.random.default_rng(seed)
    for name, shape in shapes.items():
        values = 0.2 * random.standard_normal(shape).astype(np.float32)
        if name == without:
            continue
        if len(shape) == 1:
            writer.add_tensor(name, 1 + values)
        else:
            blocks = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q4_1)
            writer.add_tensor(name, blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
