"""Any Hugging Face model in the ways that it is computed here.

- its last positions only, to logits or to hidden states;
- with another attention, through transformers' attention interface;
- with other forwards of some of its modules;
- with activation checkpointing: a decoder layer keeps its input alone and is computed again in the backward pass. The
  numbers are the same to the bit. (Chen et al. 2016, arXiv:1604.06174.)
- in float32 where its weights have 16 bits: the function of the same weights without the rounding between operations;
- with another number of torch threads;
- on a GPU by operations that give the same bits each time.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from tasks.errors import GraftError

Head = Callable[[Tensor], Tensor]
"""Hidden states [m, H] → logits [m, V]."""

Forward = Callable[..., Tensor]
"""(kept, **inputs of the model) → predictions at the last `kept` positions [B, kept, ·]."""

Attend = Callable[[Any, Tensor, Tensor, Tensor, Any, float], Tensor]
"""(layer, query [B, heads, T, d], key and value [B, kv, S, d], the forward's keyword, scale) → [B, T, heads, d]."""

CHECKPOINTING = "update.checkpointing"
"""The param that has decoder layers checkpointed."""


def forward_to_logits(model: Any) -> Forward:
    """Predictions are logits [B, kept, V]; only these are computed, if the model supports `logits_to_keep`."""
    can_keep = "logits_to_keep" in inspect.signature(unwrap_model(model).forward).parameters

    def forward(kept: int, **inputs: Any) -> Tensor:
        out = model(**inputs, logits_to_keep=kept) if can_keep else model(**inputs)
        return _last(kept, out.logits)

    return forward


def forward_to_hidden(model: Any) -> tuple[Forward, Head]:
    """Predictions are hidden states [B, kept, H]; returned with the head that maps them to logits."""
    decoder, head = unwrap_model(model).get_decoder(), unwrap_model(model).get_output_embeddings()

    def forward(kept: int, **inputs: Any) -> Tensor:
        return _last(kept, decoder(**inputs).last_hidden_state)

    return forward, head


def cache_argument(model: Any) -> str:
    """The name of the forward pass's argument for a cache of keys and values: `cache`, before transformers 5.24
    `past_key_values`."""
    return "cache" if "cache" in inspect.signature(unwrap_model(model).forward).parameters else "past_key_values"


@contextmanager
def caught_hidden_states(model: Any) -> Iterator[list[Tensor]]:
    """In the block, the hidden states [B, S, H] below the model's head are added to the list at each forward pass."""
    caught: list[Tensor] = []

    def catch(_module: Any, _inputs: Any, output: Any) -> None:
        caught.append(output.last_hidden_state)

    hook = unwrap_model(model).get_decoder().register_forward_hook(catch)
    try:
        yield caught
    finally:
        hook.remove()


def as_forward(hidden: Tensor) -> Forward:
    """A forward pass whose predictions are these hidden states [B, S, H]."""
    return lambda kept, **_: _last(kept, hidden)


def _last(kept: int, predicted: Tensor) -> Tensor:
    """The last `kept` positions; slicing where all are kept would copy the gradient."""
    return predicted if predicted.shape[1] == kept else predicted[:, -kept:]


def unwrap_model(model: Any) -> Any:
    """The transformers model inside a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def decoder_layers(model: Any, asked_by: str) -> list[Any]:
    """The layers, from the first to the last. Raises GraftError if it has none, which names the param `asked_by`."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = _outermost(model, GradientCheckpointingLayer)
    if not layers:
        raise GraftError(f"{asked_by}: this model is not made of transformers' decoder layers; set it to false")
    return layers


def _outermost(module: Any, kind: type) -> list[Any]:
    if isinstance(module, kind):
        return [module]
    return [layer for child in module.children() for layer in _outermost(child, kind)]


def iterate_modules(model: Any) -> Iterator[Any]:
    """All modules in a model, itself included; model.modules() takes ten times as long."""
    yield model
    for module in model._modules.values():
        if module is not None:
            yield from iterate_modules(module)


@contextmanager
def patch_forwards(forwards: Mapping[Any, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """In the block, each of these modules is computed by its function; none may have an instance `forward` already."""
    try:
        for module, forward in forwards.items():
            module.forward = forward
        yield
    finally:
        for module in forwards:
            del module.forward


@contextmanager
def use_attention(model: Any, name: str, attend: Attend) -> Iterator[None]:
    """In the block, each attention layer of `model` calls `attend`, with the keyword `name` of its forward and no mask.

    It has no effect on models that do not use the interface: callers must check the numbers. A layer that needs more
    than a softmax of scaled scores, or is not given the keyword, raises ValueError.
    """
    from transformers import AttentionInterface

    def attention(
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        _mask: Any,
        scaling: float | None = None,
        **settings: Any,
    ) -> tuple[Tensor, None]:
        check_plain_softmax(settings)
        if settings.get(name) is None:
            raise ValueError(f"its forward pass does not hand {name} on to its attention")
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        return attend(layer, query, key, value, settings[name], scale), None

    AttentionInterface.register(name, attention)  # for all models, and for good: only one that names it uses it
    implementation = model.config._attn_implementation
    model.config._attn_implementation = name  # model.set_attn_implementation takes thirty times as long
    try:
        yield
    finally:
        model.config._attn_implementation = implementation


def check_plain_softmax(settings: dict[str, Any]) -> None:
    """Raises ValueError where a layer needs more than a softmax of scaled scores."""
    if more := [name for name in ("softcap", "s_aux") if settings.get(name) is not None]:
        raise ValueError(f"its attention has {more[0]}")


@contextmanager
def checkpointed_layers(model: Any, attention: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """In the block, the decoder layers of `model` are checkpointed where gradients are computed.

    `attention` makes the context that a layer is computed in again: the backward pass runs when the attention of a
    layout is gone from the model. Raises GraftError if the model has no such layers.
    """
    layers = decoder_layers(model, CHECKPOINTING)
    with patch_forwards({layer: _checkpointed(layer.forward, attention) for layer in layers}):
        yield


def _checkpointed(forward: Callable[..., Any], attention: Callable[[], AbstractContextManager[None]]) -> Any:
    def attend(*inputs: Any, **settings: Any) -> Any:
        with attention():
            return forward(*inputs, **settings)

    def compute(*inputs: Any, **settings: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **settings)
        return torch.utils.checkpoint.checkpoint(
            attend,
            *inputs,
            **settings,
            use_reentrant=False,
            preserve_rng_state=False,  # nothing is drawn
        )

    return compute


def has_narrow_weights(model: Any) -> bool:
    """Whether some weights have 16 bits: then two ways to compute the model differ by more than float32's rounding."""
    return any(map(_is_narrow, model.parameters()))


@contextmanager
def float32_weights(model: Any) -> Iterator[None]:
    """In the block, modules with weights of 16 bits compute in float32; it gives them no gradient.

    Weights of fewer bits, which a library computes with in a type of its own, are left as they are.
    """
    with ExitStack() as hooks:
        for module in model.modules():
            names = [name for name, weight in module._parameters.items() if weight is not None and _is_narrow(weight)]
            if names:
                hooks.callback(_widen(module, names))
        yield


def _is_narrow(weight: Tensor) -> bool:
    return weight.is_floating_point() and weight.itemsize == 2


def _widen(module: Any, names: list[str]) -> Any:
    """Hook copies of these weights in for each forward pass of the module; returns what removes the hooks."""
    kept: dict[str, Any] = {}

    def widen(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        for name in names:
            kept[name] = module._parameters[name]
            module._parameters[name] = kept[name].detach().float()
        return tuple(x.float() if isinstance(x, torch.Tensor) and _is_narrow(x) else x for x in inputs)

    def restore(*_: Any) -> None:
        module._parameters.update(kept)
        kept.clear()

    handles = module.register_forward_pre_hook(widen), module.register_forward_hook(restore, always_call=True)

    def remove() -> None:
        for handle in handles:
            handle.remove()

    return remove
