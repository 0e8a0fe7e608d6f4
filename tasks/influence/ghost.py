"""Ghost inner products: each sample's gradient against a direction, for all samples in one backward.

A LoRA factor is a linear map y = W x. With g = ∂L/∂y, sample i's gradient is ∇_W L_i = Σ_t g_it x_itᵀ: forward hooks
catch x, backward hooks catch g, and a module's per-sample gradients [B, out, in] live only until they are
contracted. The base gets no gradient and the adapter's own weight gradients are not computed, so the pass costs
about a plain forward and backward. B = 0 (a fresh adapter) makes every ∇_A zero, as it should; the scale
alpha / rank is in g already. (TracIn: Pruthi et al. 2020; ghost products: Wang et al. 2024, GREATS.)
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tasks.errors import GraftError

if TYPE_CHECKING:
    from torch import Tensor

Direction = dict[str, "Tensor"]
"""A value for each LoRA factor, by name, of the factor's shape."""


def lora_factors(model: Any) -> dict[str, Any]:
    """The linear modules of the trained adapter, by name.

    Raises GraftError where a trained weight is not one of them, because its influence would be left out.
    """
    import torch

    modules = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and (".lora_A." in name or ".lora_B." in name)
        and module.weight.requires_grad
    }
    known = {f"{name}.weight" for name in modules}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and name not in known:
            raise GraftError(f"influence: {name} is trained but is no LoRA matrix of a linear layer; leave it frozen")
    return modules


def ghost_products(model: Any, direction: Direction, losses: Callable[[], "Tensor"]) -> tuple["Tensor", "Tensor"]:
    """⟨∇L_i, direction⟩ [B] and ‖∇L_i‖ [B] over the LoRA factors, in float64.

    `losses` runs the model on a batch of B rows and returns L_i [B], where L_i depends on row i alone. Products are
    taken in float32 (float64 for a float64 model), outside autocast.
    """
    import torch

    modules = lora_factors(model)
    products: dict[str, Tensor] = {}
    squares: dict[str, Tensor] = {}

    def contract(name: str, inputs: "Tensor", gradient: "Tensor") -> None:
        if name in products:
            raise RuntimeError(f"{name} is called twice in one pass; its squared norm would be wrong")
        wide = torch.promote_types(inputs.dtype, torch.float32)
        with torch.autocast(inputs.device.type, enabled=False):
            per_sample = torch.bmm(gradient.transpose(1, 2).to(wide), inputs.to(wide)).flatten(1)  # [B, out · in]
            products[name] = (per_sample @ direction[name].to(wide).flatten()).double()
            squares[name] = torch.linalg.vector_norm(per_sample, dim=1).double().square()

    with _ghost_pass(model, modules, contract) as embedded:
        total = losses().sum()
        torch.autograd.grad(total, embedded)
    return sum_of(products), sum_of(squares).sqrt()


def sum_of(parts: dict[str, "Tensor"]) -> "Tensor":
    """Σ of the values."""
    import torch

    return torch.stack(list(parts.values())).sum(0)


@contextmanager
def _ghost_pass(
    model: Any, modules: dict[str, Any], contract: Callable[[str, "Tensor", "Tensor"], None]
) -> Iterator[list["Tensor"]]:
    """Hooks on for the block, and gradients with respect to the embedded tokens only, yielded when they are known."""
    embedded: list[Tensor] = []

    def mark(_module: Any, _inputs: Any, output: "Tensor") -> None:
        embedded.append(output.requires_grad_())

    def watch(name: str) -> Callable[[Any, tuple["Tensor"], "Tensor"], None]:
        def catch(_module: Any, inputs: tuple["Tensor"], output: "Tensor") -> None:
            x = inputs[0].detach()
            output.register_hook(lambda gradient: contract(name, x, gradient))  # type: ignore[no-untyped-call]

        return catch

    with ExitStack() as stack:
        for name, module in modules.items():
            stack.callback(module.weight.requires_grad_, True)
            module.weight.requires_grad_(False)
            stack.callback(module.register_forward_hook(watch(name)).remove)
        stack.callback(model.get_input_embeddings().register_forward_hook(mark).remove)
        yield embedded
