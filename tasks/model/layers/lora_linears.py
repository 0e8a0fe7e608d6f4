"""LoRA linears in fewer operations: merged above weights of 32 bits, narrow above those of 16.

Merged, they are one matrix each, with the gradients of their factors; it needs memory for one more copy of the adapted
weights:

    y = x (W + s B A)ᵀ instead of x Wᵀ + s (x Aᵀ) Bᵀ

It saves two thin products in the forward pass and two in the backward pass; with small models an update takes a tenth
less time. Narrow, the products of the adapter are in the type of the weights:

    y = x Wᵀ + (x Aᵀ) (s B)ᵀ

A and B are float32 and stay so: their gradients are. peft computes their products in float32, and keeps a float32 copy
of every input for the backward pass: twelve operations a linear, and a GPU starts one in 10 µs. Here they are two, and
no copy is kept.

With v = s g B, where g = ∂L/∂y, the gradients of both are

    ∂L/∂x = g W + v A      ∂L/∂A = vᵀ x      ∂L/∂B = s gᵀ (x Aᵀ)
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tasks.model.hf_model import iterate_modules, patch_forwards

Capture = Callable[[str, Tensor, Tensor], None]
"""Called with a LoRA factor's name, its input [..., in] and the gradient of its output [..., out]."""

OnCall = Callable[[str], None]
"""Called with a LoRA factor's name in each forward pass."""

MERGED_PARAMETERS = 500_000_000
"""Adapted weights that may be copied; a larger model is left as it is."""


@contextmanager
def merged_linears(model: Any) -> Iterator[None]:
    """In the block, plain LoRA linears are one matrix each. The block must not change their weights.

    Not merged: linears with active dropout, with several adapters or none, of variants such as DoRA, of less than 32
    bits (a small B A would be lost in W), and all under autocast.
    """
    with patch_forwards({module: _merged_forward(module) for module in _plain_linears(iterate_modules(model))}):
        yield


@contextmanager
def capture_lora_inputs(model: Any, capture: Capture, on_call: OnCall) -> Iterator[set[str]]:
    """The same, but the factors get no gradient: in each backward pass `capture` gets the tensors to compute it from.

    Yields the names of these factors. Autocast is off in them.
    """
    names = {module: name for name, module in model.named_modules()}
    modules = _plain_linears(names)
    with patch_forwards({module: _capturing_forward(names[module], module, capture, on_call) for module in modules}):
        yield {factor for module in modules for factor in _factors(names[module], module)}


def is_one_matrix(module: Any) -> bool:
    """Whether a module is a linear, or a LoRA linear that can be merged."""
    from peft.tuners.lora import Linear

    return type(module) is torch.nn.Linear or (isinstance(module, Linear) and _is_plain(module))


def matrix_of(module: Any) -> tuple[Tensor, Tensor | None]:
    """Weight [out, in] and bias [out] of a module that `is_one_matrix`; the weight's memory is its transpose's."""
    if hasattr(module, "base_layer"):
        return _merge(module)[3], module.base_layer.bias
    return module.weight.T.contiguous().T, module.bias


def _plain_linears(modules: Iterable[Any]) -> list[Any]:
    from peft.tuners.lora import Linear

    plain = [module for module in modules if isinstance(module, Linear) and _is_plain(module)]
    return plain if sum(module.base_layer.weight.numel() for module in plain) <= MERGED_PARAMETERS else []


def _factors(name: str, module: Any) -> tuple[str, str]:
    (adapter,) = module.active_adapters
    return f"{name}.lora_A.{adapter}", f"{name}.lora_B.{adapter}"


def _merge(module: Any) -> tuple[Tensor, Tensor, float, Tensor]:
    """A, B, scale and W + s B A of a LoRA linear."""
    (name,) = module.active_adapters
    down, up, scale = module.lora_A[name].weight, module.lora_B[name].weight, module.scaling[name]
    weight = module.base_layer.weight
    with torch.no_grad(), torch.autocast(weight.device.type, enabled=False):  # which would round the matrix to 16 bits
        # The transpose in memory: a CPU multiplies few rows by it in little more than half the time, many as fast.
        return down, up, scale, torch.addmm(weight.T, down.T, up.T, alpha=scale).T


def _capturing_forward(name: str, module: Any, capture: Capture, on_call: OnCall) -> Callable[[Tensor], Tensor]:
    down, up, scale, merged = _merge(module)
    factors, bias = _factors(name, module), module.base_layer.bias

    def forward(x: Tensor) -> Tensor:
        for factor in factors:
            on_call(factor)
        with torch.autocast(x.device.type, enabled=False):
            return _capturing(x.to(merged.dtype), down, up, merged, bias, scale, factors, capture)

    return forward


class Capturing(torch.autograd.Function):
    """As `Merged`, for x [B, T, in]; `capture` gets A's and B's inputs and the gradients of their outputs."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        down: Tensor,
        up: Tensor,
        merged: Tensor,
        bias: Any,
        scale: float,
        factors: tuple[str, str],
        capture: Capture,
    ) -> Tensor:
        ctx.save_for_backward(x, down, up, merged)
        ctx.scale, ctx.factors, ctx.capture = scale, factors, capture
        return torch.nn.functional.linear(x, merged, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, down, up, merged = ctx.saved_tensors
        ctx.capture(ctx.factors[0], x, gradient @ (up * ctx.scale))
        ctx.capture(ctx.factors[1], x @ (down * ctx.scale).T, gradient)
        return gradient @ merged if ctx.needs_input_grad[0] else None, *[None] * 7


_capturing: Callable[..., Tensor] = Capturing.apply


def _merged_forward(module: Any) -> Callable[[Tensor], Tensor]:
    down, up, scale, merged = _merge(module)
    separate, bias = module.forward, module.base_layer.bias

    def forward(x: Tensor) -> Tensor:
        if torch.is_autocast_enabled(merged.device.type):
            return separate(x)  # type: ignore[no-any-return]
        if torch.is_grad_enabled():
            return _merged(x, down, up, merged, bias, scale)
        return torch.nn.functional.linear(x, merged, bias)

    return forward


class Merged(torch.autograd.Function):
    """x [..., in], A [r, in], B [out, r], W + s B A [out, in], bias [out] or None, s → y [..., out]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, down: Tensor, up: Tensor, merged: Tensor, bias: Any, scale: float) -> Tensor:
        ctx.save_for_backward(x, down, up, merged)
        ctx.scale = scale
        return torch.nn.functional.linear(x, merged, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, down, up, merged = ctx.saved_tensors
        rows, flat = x.flatten(0, -2), gradient.flatten(0, -2)
        to_x = gradient @ merged if ctx.needs_input_grad[0] else None
        to_down = to_up = None
        # The thin side first and long rows last: in any other order a CPU takes four times as long.
        if ctx.needs_input_grad[1]:
            to_down = ((up * ctx.scale).T.contiguous() @ flat.T) @ rows
        if ctx.needs_input_grad[2]:
            to_up = ((down * ctx.scale) @ rows.T @ flat).T
        return to_x, to_down, to_up, None, None, None


_merged: Callable[..., Tensor] = Merged.apply


def _is_plain(module: Any) -> bool:
    types = {weight.dtype for weight in weights_of(module) or []}
    return types in ({torch.float32}, {torch.float64})


def weights_of(module: Any) -> list[Tensor] | None:
    """W, A and B of a LoRA linear that computes x Wᵀ + s (x Aᵀ) Bᵀ and nothing else, or None."""
    if type(module.base_layer) is not torch.nn.Linear or module.disable_adapters or module.merged:
        return None
    if len(module.active_adapters) != 1 or "forward" in vars(module):  # accelerate puts one there
        return None
    (name,) = module.active_adapters
    if name not in module.lora_A or module.lora_variant.get(name) or module.lora_bias.get(name):
        return None
    dropout = module.lora_dropout[name]
    if dropout.training and not isinstance(dropout, torch.nn.Identity):
        return None
    weights = [module.base_layer.weight, module.lora_A[name].weight, module.lora_B[name].weight]
    if any(type(weight) is not torch.nn.Parameter for weight in weights):  # a part of it in each process, or few bits
        return None
    return weights


@contextmanager
def narrow_linears(model: Any) -> Iterator[None]:
    """In the block, adapters above linears of 16 bits are computed in 16 bits. The block must not change weights.

    Left as they are: linears with active dropout, with several adapters or none, of variants such as DoRA, and all
    under autocast, which narrows them itself.
    """
    from peft.tuners.lora import Linear

    linears = [module for module in iterate_modules(model) if isinstance(module, Linear) and _is_narrow(module)]
    with patch_forwards({module: _narrow_forward(module) for module in linears}):
        yield


def _is_narrow(module: Any) -> bool:
    weights = weights_of(module)
    if weights is None:
        return False
    base, *factors = (weight.dtype for weight in weights)
    return base.itemsize == 2 and base.is_floating_point and set(factors) == {torch.float32}


def _narrow_forward(module: Any) -> Callable[[Tensor], Tensor]:
    (name,) = module.active_adapters
    scale, bias, (base, down, up) = module.scaling[name], module.base_layer.bias, weights_of(module) or []
    narrow_down, narrow_up = down.detach().to(base.dtype), (up.detach() * scale).to(base.dtype)
    separate = module.forward

    def forward(x: Tensor) -> Tensor:
        if torch.is_autocast_enabled(base.device.type) or x.dtype != base.dtype:
            return separate(x)  # type: ignore[no-any-return]
        return _narrow_lora(x, down, up, base, bias, narrow_down, narrow_up, scale)

    return forward


class NarrowLora(torch.autograd.Function):
    """x [..., in], A [r, in], B [out, r], W [out, in], bias or None, A and s B in 16 bits, s → y [..., out]."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        _down: Tensor,
        _up: Tensor,
        base: Tensor,
        bias: Tensor | None,
        down: Tensor,
        up: Tensor,
        scale: float,
    ) -> Tensor:
        rows = x.flatten(0, -2)
        inner = rows @ down.T
        ctx.save_for_backward(rows, inner, base, down, up)
        ctx.scale = scale
        output = torch.nn.functional.linear(rows, base, bias).addmm_(inner, up.T)  # in place: no copy
        return output.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        rows, inner, base, down, up = ctx.saved_tensors
        flat = gradient.flatten(0, -2)
        to_inner = flat @ up
        to_x = to_down = to_up = None
        if ctx.needs_input_grad[0]:
            to_x = (flat @ base).addmm_(to_inner, down).view(*gradient.shape[:-1], -1)
        if ctx.needs_input_grad[1]:
            to_down = (to_inner.T @ rows).float()
        if ctx.needs_input_grad[2]:
            to_up = torch.addmm(up, flat.T, inner, beta=0, alpha=ctx.scale).float()
        return to_x, to_down, to_up, *[None] * 5


_narrow_lora: Callable[..., Tensor] = NarrowLora.apply
