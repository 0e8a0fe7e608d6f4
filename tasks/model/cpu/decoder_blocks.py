"""CPU float32: Llama's blocks written out for sampling; equal to rounding, in less than half of the operations.

With few rows a token costs the start of its operations, not their multiplications. So a block is four matrices, made
once per batch: queries, keys and values are one product, gate and up projection another; LoRA factors are added to the
weights, the weights of norms and the scale of attention multiplied into them. The rotary embedding (Su et al. 2021,
RoFormer, arXiv:2104.09864) is looked up and applied to queries and keys together.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from tasks.model.decoding.batch_state import BatchState
from tasks.model.decoding.decode_loop import MAX_COPIED, DecodeLoop
from tasks.model.decoding.equal_rows import DistinctRows
from tasks.model.decoding.growing_cache import Prefix, SharedPrefix, growing_cache, keeps_all_tokens
from tasks.model.hf_model import iterate_modules
from tasks.model.layers.lora_linears import MERGED_PARAMETERS, is_one_matrix, matrix_of

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM")
"""Models of transformers that consist of such blocks."""

STATIC_ROPE = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings that do not depend on the number of tokens."""


def is_supported(model: Any) -> bool:
    """Whether `LlamaBlocks` can replace a transformers model: its architecture, in float32, without hooks."""
    if type(model).__name__ not in ARCHITECTURES or not type(model).__module__.startswith("transformers.models."):
        return False
    weights = [p for p in model.parameters() if p.is_floating_point()]
    is_float32 = {p.dtype for p in weights} == {torch.float32}
    changed = any("forward" in vars(m) or m._forward_hooks or m._forward_pre_hooks for m in iterate_modules(model))
    return (
        is_float32
        and not changed
        and not model.training
        and sum(p.numel() for p in weights) <= MERGED_PARAMETERS
        and model.model.rotary_emb.rope_type in STATIC_ROPE
        and keeps_all_tokens(growing_cache(model.config))  # no sliding window
        and all(is_one_matrix(linear) for layer in model.model.layers for linear in _linears(layer))
    )


@dataclass(frozen=True)
class _Block:
    """Weights of one layer; all matrices [in, out]."""

    inward: Tensor  # to queries, keys and values, head by head
    inward_bias: Tensor | None
    outward: Tensor
    outward_bias: Tensor | None
    up: Tensor  # gate and up projection
    up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None
    epsilons: tuple[float, float]
    activation: Any


class LlamaBlocks:
    """A model's forward pass for positions below `room`, from its present weights."""

    supports_prefix = True
    joins_rows = True

    def __init__(self, model: Any, room: int) -> None:
        config, attention = model.config, model.model.layers[0].self_attn
        self._model, self._size = model, attention.head_dim
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._blocks = [_block_of(layer, self._size**-0.5) for layer in model.model.layers]
        embedding = model.get_input_embeddings().weight
        cos, sin = model.model.rotary_emb(embedding, torch.arange(room, device=embedding.device)[None])
        half = self._size // 2
        # A rotation is x cos + (-x₂, x₁) sin; its minus is in the table, so that x is rolled and not negated.
        self._cos, self._sin = cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], -1)  # [room, d]

    def prefill(self, ids: Tensor, seen: Tensor | None, positions: Tensor | None, cache: Any) -> Tensor:
        count, length = ids.shape
        past = cache.get_seq_length()
        order = torch.ones(length, past + length, dtype=torch.bool, device=ids.device)
        itself = order.triu(past).tril(past)  # padding that attends to nothing would be NaN
        order = order.tril(past)
        mask = None if seen is None else (seen[:, None, None] & order) | itself
        places = torch.arange(length, device=ids.device).expand(count, -1) if positions is None else positions

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            q, k, v = (x.reshape(count, length, -1, self._size).transpose(1, 2) for x in (queries, keys, values))
            k, v = cache.layers[layer].update(k, v)
            gqa = self._heads != self._kv_heads
            done = scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, scale=1.0, enable_gqa=gqa)
            return done.transpose(1, 2).reshape(count * length, -1)

        return self._logits(self._hidden(ids.flatten(), places.flatten(), attend).view(count, length, -1)[:, -1])

    def decode(
        self, ids: Tensor, positions: Tensor, cache: Any, prefix: Prefix, distinct: DistinctRows | None
    ) -> Tensor:
        queries = self._heads // self._kv_heads
        shared = prefix.at(distinct.rows, queries) if distinct and isinstance(prefix, SharedPrefix) else None

        def attend(layer: int, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            if distinct:  # each row has a cache of its own: copying those of rows that part would take longer
                keys, values = (x.index_select(0, distinct.places) for x in (keys, values))
            held = cache.layers[layer].update(keys[:, :, None], values[:, :, None])
            if distinct and shared:
                held = tuple(x.index_select(0, distinct.rows) for x in held)
            elif distinct:
                q = q.index_select(0, distinct.places)
            together = q.view(len(q), self._kv_heads, queries, self._size)
            attended = (shared or prefix).attend(layer, together, *held).reshape(len(q), -1)
            return attended.index_select(0, distinct.rows) if distinct and not shared else attended

        if not distinct:
            return self._logits(self._hidden(ids, positions, attend))
        return self._logits(self._hidden(ids[distinct.rows], positions[distinct.rows], attend))

    def _hidden(self, ids: Tensor, positions: Tensor, attend: Any) -> Tensor:
        """ids [N], positions [N] → [N, H]; `attend` gets the layer, queries [N, heads, d], keys and values."""
        both, half = self._heads + self._kv_heads, self._size // 2
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        x: Tensor = self._model.get_input_embeddings()(ids)
        for number, block in enumerate(self._blocks):
            inner = _product(_normed(x, block.epsilons[0]), block.inward, block.inward_bias)
            inner = inner.view(len(ids), -1, self._size)
            rotated = (inner[:, :both] * cos).addcmul_(inner[:, :both].roll(half, -1), sin)
            attended = attend(number, rotated[:, : self._heads], rotated[:, self._heads :], inner[:, both:])
            x = _added(x, attended, block.outward, block.outward_bias)
            up = _product(_normed(x, block.epsilons[1]), block.up, block.up_bias)
            gate, value = up.chunk(2, -1)
            x = _added(x, block.activation(gate) * value, block.down, block.down_bias)
        return x

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self._model.lm_head(self._model.model.norm(hidden))
        return logits


def decode_blocks(model: Any, state: BatchState, max_copied: int = MAX_COPIED) -> None:
    """`decode` with a model that `LlamaBlocks` support."""
    with torch.inference_mode():
        blocks = LlamaBlocks(model, max(len(r.context) for r in state.requests) + state.steps)
        DecodeLoop(model.config, blocks, state, max_copied).run()


def _block_of(layer: Any, scale: float) -> _Block:
    query, key, value, out, gate, up, down = [matrix_of(linear) for linear in _linears(layer)]
    norms = (layer.input_layernorm, layer.post_attention_layernorm)
    query = (query[0] * scale, None if query[1] is None else query[1] * scale)

    def joined(*parts: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
        biases = [bias for _, bias in parts if bias is not None]
        return torch.cat([matrix.T for matrix, _ in parts], 1), torch.cat(biases) if biases else None

    inward, inward_bias = joined(query, key, value)
    both, both_bias = joined(gate, up)
    return _Block(
        inward=inward.mul_(norms[0].weight[:, None]),
        inward_bias=inward_bias,
        outward=out[0].T,
        outward_bias=out[1],
        up=both.mul_(norms[1].weight[:, None]),
        up_bias=both_bias,
        down=down[0].T,
        down_bias=down[1],
        epsilons=(norms[0].variance_epsilon, norms[1].variance_epsilon),
        activation=layer.mlp.act_fn,
    )


def _linears(layer: Any) -> list[Any]:
    attention, mlp = layer.self_attn, layer.mlp
    projections = [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
    return [*projections, mlp.gate_proj, mlp.up_proj, mlp.down_proj]


def _normed(x: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x²) + ε)"""
    return x * x.square().mean(-1, keepdim=True).add_(epsilon).rsqrt_()


def _product(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    return torch.mm(x, matrix) if bias is None else torch.addmm(bias, x, matrix)


def _added(x: Tensor, inner: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    done = torch.addmm(x, inner, matrix)
    return done if bias is None else done.add_(bias)
