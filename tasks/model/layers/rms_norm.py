"""RMS norms in half the passes over memory, with a hand-written gradient (Zhang & Sennrich 2019).

With r = 1 / sqrt(mean(x²) + ε), n = x r and y = w n, and g = ∂L/∂y:

    ∂L/∂x = r (w g - n mean(w g n))      ∂L/∂w = Σ g n

In transformers a norm is seven operations of torch. In a small model, or with few rows, it costs as much as the matrix
product after it: fused, an update takes 4 % less time and a sampled token 5 %. In 16 bits torch's own is used, which is
one operation on a GPU and rounds once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tasks.model.hf_model import iterate_modules, patch_forwards

_probe_results: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Module → whether it is an RMS norm."""


@contextmanager
def fused_norms(model: Any) -> Iterator[None]:
    """In the block, RMS norms are fused; a probe, not the name, decides which modules are RMS norms.

    Under autocast none is.
    """
    modules = [module for module in iterate_modules(model) if _has_one_weight(module) and _is_norm(module)]
    with patch_forwards({module: _fused_forward(module) for module in modules}):
        yield


def _fused_forward(module: Any) -> Callable[[Tensor], Tensor]:
    separate, weight, epsilon = module.forward, module.weight, float(_epsilon(module) or 0)

    def forward(x: Tensor) -> Tensor:
        if x.dtype != weight.dtype or torch.is_autocast_enabled(weight.device.type):
            return separate(x)  # type: ignore[no-any-return]
        if weight.itemsize == 2:
            return torch.nn.functional.rms_norm(x, weight.shape, weight, epsilon)
        if torch.is_grad_enabled():
            return _rms_norm(x, weight, epsilon)
        return (x * _scale(x, epsilon)).mul_(weight)

    return forward


def _scale(x: Tensor, epsilon: float) -> Tensor:
    """1 / sqrt(mean(x²) + ε), [..., 1]"""
    return x.square().mean(-1, keepdim=True).add_(epsilon).rsqrt_()


def _is_norm(module: Any) -> bool:
    """Whether a module computes an RMS norm; probed once."""
    if module not in _probe_results:
        _probe_results[module] = _agrees(module)
    return _probe_results[module] and "forward" not in vars(module)  # accelerate puts one there


def _has_one_weight(module: Any) -> bool:
    if module._modules or list(module._parameters) != ["weight"]:
        return False
    weight = module.weight
    if type(weight) is not torch.nn.Parameter:  # none, or a part of it in each process
        return False
    is_vector = weight.dim() == 1 and _epsilon(module) is not None
    return is_vector and weight.is_floating_point() and weight.itemsize > 1


def _agrees(module: Any) -> bool:
    """Probe with numbers so small that ε matters."""
    weight = module.weight
    exact = weight.double() if weight.itemsize == 2 else weight
    within = max(1e-4, 4 * torch.finfo(weight.dtype).eps)
    with torch.no_grad():
        x = torch.linspace(-1e-3, 2e-3, 2 * len(weight), dtype=weight.dtype, device=weight.device).view(1, 2, -1)
        try:
            expected = _rms_norm(x.to(exact.dtype), exact, _epsilon(module)).to(weight.dtype)
            return torch.allclose(module(x), expected, rtol=within, atol=1e-6)
        except (RuntimeError, ValueError, TypeError):
            return False


def _epsilon(module: Any) -> float | None:
    values = [getattr(module, name) for name in ("variance_epsilon", "eps") if hasattr(module, name)]
    return values[0] if values and isinstance(values[0], float) else None


class RmsNorm(torch.autograd.Function):
    """x [..., n], w [n], ε → y [..., n]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        scale = _scale(x, epsilon)
        normed = x * scale
        ctx.save_for_backward(normed, scale, weight)
        return normed * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        normed, scale, weight = ctx.saved_tensors
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            weighted = gradient * weight
            common = (weighted * normed).mean(-1, keepdim=True)
            to_x = weighted.addcmul_(normed, common, value=-1).mul_(scale)
        if ctx.needs_input_grad[1]:
            to_weight = (gradient * normed).flatten(0, -2).sum(0)
        return to_x, to_weight, None


_rms_norm: Callable[..., Tensor] = RmsNorm.apply
