"""LoRA linears above weights of 16 bits, with the products of the adapter in the type of the weights.

    y = x Wᵀ + (x Aᵀ) (s B)ᵀ

A and B are float32 and stay so: their gradients are. peft computes their products in float32, and keeps a float32 copy
of every input for the backward pass: twelve operations a linear, and a GPU starts one in 10 µs. Here they are two, and
no copy is kept. With v = s g B, where g = ∂L/∂y, the gradients are

    ∂L/∂x = g W + v A      ∂L/∂A = vᵀ x      ∂L/∂B = s gᵀ (x Aᵀ)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tasks.model.hf_model import iterate_modules, patch_forwards
from tasks.model.layers.merged_lora import weights_of


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
        found = torch.nn.functional.linear(rows, base, bias).addmm_(inner, up.T)  # in place: no copy
        return found.view(*x.shape[:-1], -1)

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
