"""RMS norms in 16 bits (Zhang & Sennrich 2019) by torch itself: on a GPU one kernel, where transformers takes eight.

A small kernel costs what its launch does, in each layer for each decoded token. In float32 on a CPU fusing brings 2 %
of a step (docs/results/2026-11-29-house.md), so those norms stay as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from tasks.model.hf_model import iterate_modules, patch_forwards

_probe_results: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Module → whether it is an RMS norm."""


@contextmanager
def fused_norms(model: Any) -> Iterator[None]:
    """In the block, RMS norms of 16 bits are one operation; a probe, not the name, decides which modules they are.

    Under autocast none is.
    """
    modules = [module for module in iterate_modules(model) if _has_one_weight(module) and _is_norm(module)]
    with patch_forwards({module: _fused_forward(module) for module in modules}):
        yield


def _fused_forward(module: Any) -> Callable[[Tensor], Tensor]:
    own, weight, epsilon = module.forward, module.weight, _epsilon(module)

    def forward(x: Tensor) -> Tensor:
        if x.dtype != weight.dtype or torch.is_autocast_enabled(weight.device.type):
            return own(x)  # type: ignore[no-any-return]
        return rms_norm(x, weight.shape, weight, epsilon)

    return forward


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
    is_narrow = weight.is_floating_point() and weight.itemsize == 2
    return is_narrow and weight.dim() == 1 and _epsilon(module) is not None


def _agrees(module: Any) -> bool:
    """Probe with numbers so small that ε matters."""
    weight = module.weight
    within = 4 * torch.finfo(weight.dtype).eps
    with torch.no_grad():
        x = torch.linspace(-1e-3, 2e-3, 2 * len(weight), dtype=weight.dtype, device=weight.device).view(1, 2, -1)
        try:
            expected = rms_norm(x.double(), weight.shape, weight.double(), _epsilon(module)).to(weight.dtype)
            return torch.allclose(module(x), expected, rtol=within, atol=1e-6)
        except (RuntimeError, ValueError, TypeError):
            return False


def _epsilon(module: Any) -> float | None:
    values = [getattr(module, name) for name in ("variance_epsilon", "eps") if hasattr(module, name)]
    return values[0] if values and isinstance(values[0], float) else None
