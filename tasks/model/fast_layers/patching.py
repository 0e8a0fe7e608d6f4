"""Replace the forward of a model's modules for a block (for the CPU float32 layers)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def iterate_modules(model: Any) -> Iterator[Any]:
    """All modules in a model, itself included; model.modules() takes ten times as long."""
    yield model
    for module in model._modules.values():
        if module is not None:
            yield from iterate_modules(module)


@contextmanager
def patch_forwards(forwards: Mapping[Any, Callable[["Tensor"], "Tensor"]]) -> Iterator[None]:
    """In the block, each of these modules is computed by its function; none may have an instance `forward` already."""
    try:
        for module, forward in forwards.items():
            module.forward = forward
        yield
    finally:
        for module in forwards:
            del module.forward
