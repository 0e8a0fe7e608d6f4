"""Compute a model whose weights have 16 bits in float32.

The function is that of the same weights, without the rounding of 16 bits between its operations: what is left of a
small change of a loss can be measured. Each module's weights are copied as it is called, so that one copy is in memory.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


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


def _is_narrow(weight: "Tensor") -> bool:
    return weight.is_floating_point() and weight.itemsize == 2


def _widen(module: Any, names: list[str]) -> Any:
    """Hook copies of these weights in for each forward pass of the module; returns what removes the hooks."""
    kept: dict[str, Any] = {}

    def widen(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        import torch

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
