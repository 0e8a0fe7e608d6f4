"""Export of a policy as one GGUF file, for llama.cpp and what is built on it.

Names of tensors and pre-tokenizers, and the order of the rows of Llama's queries and keys, are those of llama.cpp's
convert_hf_to_gguf.py. The adapter is merged in float32 and rounded once. Before the file takes its place it is read
back (tasks/model/checkpoints/gguf.py) and compared with the policy: logits, and the tokens of texts.
"""

import json
import os
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from tasks.errors import GraftError
from tasks.model.checkpoints.base_model import load_tokenizer
from tasks.model.checkpoints.export import load_for_export, logits_of, refuse_changed_base
from tasks.model.checkpoints.gguf import read_gguf
from tasks.model.checkpoints.load_errors import translate_errors
from tasks.model.checkpoints.version import verify_policy

WeightType = Literal["f16", "q8_0", "f32"]
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}
"""llama.cpp's numbers of them."""

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""`model_type` of transformers → name in llama.cpp, where both compute the same from the same numbers."""

SPLITS = ("qwen2", "llama-bpe", "tekken")
"""llama.cpp's names of pre-tokenizers that are one regular expression."""

TEXT = """It's 1,234.5 km, isn't it?  Ann has 12 pens (3 red)\tand 4/5 of a cake.\r\n\n   def solve(problem):
    n = numbers(problem)\n    a = n[0] * n[1] - 7\n    return a\n<answer>\n48\n</answer> I'LL
Zürich, Ελλάδα, Москва, 東京の天気, 안녕, مرحبا, 🙂👍🏽 naïve — «quoted» … 100% $5 ≥ ½ x² _a_ __b__ \u3000\xa0end"""
"""Numbers, blanks, line breaks, code and other alphabets, with composed accents: llama.cpp composes none."""

LARGEST = {"f32": 0.01, "f16": 0.1, "q8_0": 1.0}
"""Difference of a logit, in standard deviations of all: more is no rounding, but another model. SmolLM2-135M: 0, 0.009,
0.25."""

ELSE = "export it to a folder"


def export_gguf(policy: Path, file: Path, weights: WeightType) -> float:
    """Write the policy to `file` atomically; returns the largest difference of a logit to the policy's, in float32.

    Raises GraftError if the file exists, the policy is damaged, or llama.cpp has no such model or tokenizer.
    """
    if file.exists():
        raise GraftError(f"{file}: exists; name a new file")
    if find_spec("gguf") is None:
        raise GraftError("--gguf: the package gguf is not installed: pip install -c constraints.txt -e '.[gguf]'")
    lineage = verify_policy(policy)
    refuse_changed_base(policy, lineage)
    file.parent.mkdir(parents=True, exist_ok=True)
    with (
        translate_errors(f"{policy}: could not be exported", "restore it or its base from a copy"),
        TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder,
    ):
        new, model = Path(folder, "new.gguf").resolve(), load_for_export(policy, lineage)
        model = model.merge_and_unload() if "adapter" in lineage.holds else model
        tokenizer = load_tokenizer(str(policy), lineage.base)
        _write(new, model, tokenizer, f"graft-{lineage.version}", weights)
        model_back, tokenizer_back = read_gguf(str(file), new)
        texts = [TEXT, *(f"a{token.content}1" for token in tokenizer.added_tokens_decoder.values())]
        tokens, tokens_back = (t(texts, add_special_tokens=False)["input_ids"] for t in (tokenizer, tokenizer_back))
        if tokens != tokens_back:
            raise GraftError(f"--gguf: llama.cpp would read texts as other tokens than {policy}; {ELSE}")
        expected = logits_of(model)
        difference = float((logits_of(model_back) - expected).abs().max())
        if not difference <= LARGEST[weights] * float(expected.std()):  # nor NaN
            raise GraftError(f"--gguf: llama.cpp would compute other logits than {policy} ({difference:.1g}); {ELSE}")
        os.replace(new, file)
        return difference


def _write(file: Path, model: Any, tokenizer: Any, name: str, weights: WeightType) -> None:
    import gguf

    config = model.config
    architecture = ARCHITECTURES.get(config.model_type, "")
    rope: dict[str, Any] = config.rope_parameters if architecture else {"rope_type": "default"}
    if not architecture or rope["rope_type"] != "default":
        kind = f"rope_type {rope['rope_type']}" if architecture else config.model_type
        raise GraftError(f"--gguf: {kind} is not supported, but {', '.join(ARCHITECTURES)}; {ELSE}")
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_name(name)
    writer.add_file_type(FILE_TYPES[weights])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    # llama.cpp attends to all tokens: within a sliding window that is the same.
    writer.add_context_length(min(config.max_position_embeddings, getattr(config, "sliding_window", None) or 1 << 31))
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(head)
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, tokenizer, config.vocab_size)
    _add_weights(writer, model, architecture, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_weights(writer: Any, model: Any, architecture: str, weights: WeightType) -> None:
    import gguf
    import numpy as np

    q8_0, config = gguf.GGMLQuantizationType.Q8_0, model.config
    kind = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    heads = {".attn_q.": config.num_attention_heads, ".attn_k.": config.num_key_value_heads}
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    for key, weight in model.state_dict().items():
        name, values = names.get_name(key, try_suffixes=(".weight", ".bias")), weight.float().numpy()
        if tied and name == "output.weight":
            continue
        if name is None:
            raise GraftError(f"--gguf: llama.cpp's {architecture} has no weight {key}; {ELSE}")
        for part, count in heads.items():
            if architecture == "llama" and part in name:  # it rotates neighbours, transformers the halves of a head
                halves = values.reshape(count, 2, -1, *values.shape[1:])
                values = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)
        if weights == "q8_0" and values.ndim > 1 and values.shape[-1] % 32 == 0:  # else not of whole blocks
            writer.add_tensor(name, gguf.quants.quantize(values, q8_0), raw_dtype=q8_0)
        else:
            writer.add_tensor(name, values if weights == "f32" or values.ndim == 1 else values.astype(np.float16))


def _add_tokenizer(writer: Any, tokenizer: Any, size: int) -> None:
    """Tokens up to the number of embeddings, merges, and those that begin, end and pad."""
    import gguf

    added, kinds = tokenizer.added_tokens_decoder, gguf.TokenType
    texts = {place: token for token, place in tokenizer.get_vocab().items()}
    types = {place: kinds.CONTROL if token.special else kinds.USER_DEFINED for place, token in added.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_pre_tokenizer_name(tokenizer.backend_tokenizer.pre_tokenizer))
    writer.add_token_list([texts.get(place, f"[PAD{place}]") for place in range(size)])
    writer.add_token_types(
        [types.get(place, kinds.NORMAL if place in texts else kinds.UNUSED) for place in range(size)]
    )
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    if tokenizer.bos_token_id is not None:
        writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_add_bos_token(tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id])
    if isinstance(tokenizer.chat_template, str):
        writer.add_chat_template(tokenizer.chat_template)


def _pre_tokenizer_name(split: Any) -> str:
    """llama.cpp's name of a pre-tokenizer that splits as this one. Raises GraftError where it has none."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    words, letters = ByteLevel(add_prefix_space=False), ByteLevel(add_prefix_space=False, use_regex=False)
    known = {"gpt-2": words, "smollm": Sequence([Digits(individual_digits=True), words])}
    known |= {name: Sequence([Split(Regex(GGUF_PRE_TOKENIZER_SPLITS[name]), "isolated"), letters]) for name in SPLITS}
    for name, other in known.items():
        if split is not None and _state(split) == _state(other):
            return name
    raise GraftError(f"--gguf: llama.cpp has no name for the pre-tokenizer of its tokenizer; {ELSE}")


def _state(split: Any) -> str:
    """All that decides how a pre-tokenizer splits."""
    return str(split.__getstate__().decode()).replace('"trim_offsets":false', '"trim_offsets":true')
