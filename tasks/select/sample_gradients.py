"""The gradient of each sample of a batch, over the adapter, from one backward pass; and arithmetic on such gradients.

A LoRA factor is a linear map y = W x. With g = ∂L/∂y, sample i's gradient is ∇_W L_i = Σ_t g_it x_itᵀ: the product that
makes a batch's gradient, made for each sample. The LoRA linears of `lora_linears.py` do it in their own
backward pass; other linears have hooks on their factors. Neither the base's gradient nor the sum over the batch is
computed, so the pass costs as much as a plain forward and backward pass. Sums over factors, such as products with a
given direction, are added up layer by layer, so that no gradient has to be kept for them. B = 0 (a fresh
adapter) makes every ∇_A zero, as it should. (TracIn: Pruthi et al. 2020; per-sample gradients by linear layer:
Goodfellow 2015, arXiv:1510.01799.)
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from tasks.errors import GraftError
from tasks.model.layers.lora_linears import Capture, OnCall, capture_lora_inputs
from tasks.model.layers.rms_norm import fused_norms

Direction = Mapping[str, Tensor]
"""A value for each weight of each LoRA factor, by the factor's name, of its shape [out, in]."""

SampleGradients = dict[str, Tensor]
"""The gradient of each of B samples for each LoRA factor, by the factor's name, [B, out, in]."""

GradientHook = Callable[[str, Tensor], None]
"""Called with a LoRA factor's name and the gradient of each of B samples for it, [B, out, in]."""


def lora_factors(model: Any) -> dict[str, Any]:
    """The linear modules of the trained adapter, by name.

    Raises GraftError where a trained weight is not one of them, because its influence would be left out.
    """
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


def collect_gradients(model: Any, values: Callable[[], Tensor]) -> SampleGradients:
    """∇ values of each of B samples over the LoRA factors; `values` as for `stream_gradients`."""
    gradients = SampleGradients()
    size = stream_gradients(model, values, gradients.__setitem__)
    for name, module in lora_factors(model).items():
        if name not in gradients:  # never called
            gradients[name] = module.weight.new_zeros(size, *module.weight.shape)
    return gradients


def stream_gradients(model: Any, values: Callable[[], Tensor], hook: GradientHook) -> int:
    """Call `hook` with ∇ values of each of B samples, in float32 (float64 for a float64 model); returns B.

    One LoRA factor after the other, each once, as soon as the backward pass has made it: what is not kept then is gone
    before the next. Only a factor that is called more than once waits for the sum of its calls.

    `values` runs the model once, on B rows, and returns values [B], each of which depends on its row alone. Raises
    GraftError where a layer is given tokens that are not in such rows.
    """
    factors, calls, waiting = lora_factors(model), Counter[str](), SampleGradients()

    def called(name: str) -> None:
        calls[name] += 1

    def catch(name: str, x: Tensor, gradient: Tensor) -> None:
        """Make the samples' gradients from ∂L/∂y [B, T, out] and the factor's input [B, T, in]."""
        if name not in factors:  # not trained
            return
        if x.dim() != 3:
            raise GraftError(
                f"influence: {name} is given tokens of several samples in one row, whose gradients cannot be told "
                "apart; leave its layer out of policy.lora.targets"
            )
        with torch.autocast(x.device.type, enabled=False):  # it would make products in few bits
            outer = _outer(gradient, x)
            waiting[name] = waiting[name] + outer if name in waiting else outer
            left[name] -= 1
            if not left[name]:
                hook(name, waiting.pop(name))

    with _caught(model, factors, catch, called) as embedded:
        totals = values()
        left = calls.copy()  # a layer that the backward pass computes again is not called once more
        # With respect to the embedded tokens, which are below every factor, so that all hooks are reached; no weight
        # needs a gradient, which would be the sum over the batch.
        torch.autograd.grad(totals.sum(), embedded)
        for name in list(waiting):  # not all of its calls have to do with the values
            hook(name, waiting.pop(name))
    return len(totals)


def _outer(gradient: Tensor, x: Tensor) -> Tensor:
    """Σ_t g_t x_tᵀ of each sample; [B, T, out], [B, T, in] → [B, out, in]."""
    wide = torch.promote_types(x.dtype, torch.float32)
    gradient, x = gradient.to(wide), x.to(wide)
    # The thin side of a factor first: a product of few rows and many columns is the faster of the two on a CPU.
    if gradient.shape[-1] <= x.shape[-1]:
        return torch.bmm(gradient.mT, x)
    return torch.bmm(x.mT, gradient).mT


@contextmanager
def _caught(model: Any, factors: dict[str, Any], catch: Capture, called: OnCall) -> Iterator[list[Tensor]]:
    """In the block, call `called` for every call of a factor and `catch` for its gradient; gradients are taken with
    respect to the embedded tokens only, which are yielded once they exist."""
    embedded: list[Tensor] = []

    def mark(_module: Any, _inputs: Any, output: Tensor) -> None:
        embedded.append(output.requires_grad_())

    def watch(name: str) -> Callable[[Any, tuple[Tensor], Tensor], None]:
        def hook(_module: Any, inputs: tuple[Tensor], output: Tensor) -> None:
            called(name)
            x = inputs[0].detach()
            output.register_hook(lambda gradient: catch(name, x, gradient))  # type: ignore[no-untyped-call]

        return hook

    with ExitStack() as stack:
        known = stack.enter_context(capture_lora_inputs(model, catch, called))
        stack.enter_context(fused_norms(model))
        for name, module in factors.items():
            stack.callback(module.weight.requires_grad_, True)
            module.weight.requires_grad_(False)
            if name not in known:
                stack.callback(module.register_forward_hook(watch(name)).remove)
        stack.callback(model.get_input_embeddings().register_forward_hook(mark).remove)
        yield embedded


def products(gradients: SampleGradients, direction: Direction) -> Tensor:
    """⟨g_i, direction⟩ [B], in float64."""
    parts = [(part.flatten(1) @ direction[name].to(part.dtype).flatten()).double() for name, part in gradients.items()]
    return torch.stack(parts).sum(0)


def squared_norms(gradients: SampleGradients) -> Tensor:
    """‖g_i‖² [B], in float64."""
    parts = [torch.linalg.vector_norm(part.flatten(1), dim=1).double().square() for part in gradients.values()]
    return torch.stack(parts).sum(0)


def weighted_sum(gradients: SampleGradients, weights: Tensor) -> dict[str, Tensor]:
    """Σ_i weights_i g_i, of the factors' shapes; weights [B]."""
    return {name: (weights.to(part) @ part.flatten(1)).view(part.shape[1:]) for name, part in gradients.items()}


def row_products(a: Tensor, b: Tensor) -> list[float]:
    """⟨a_i, b_i⟩ of each row, [B, P] and [B, P] → [B] in float64."""
    sums: list[float] = (a.double() * b.double()).sum(1).tolist()
    return sums


def safe_inverse(norms: Tensor) -> Tensor:
    """1 / norms, 0 for those that are 0; [B] in float64."""
    return (norms > 0) / norms.clamp(min=1e-300)


def direction_cosine(a: Direction, b: Direction) -> float:
    """The cosine of the angle between two directions; 0 where one of them is 0."""
    product = sum(float((part.double() * b[name].double()).sum()) for name, part in a.items())
    return product / max(direction_norm(a) * direction_norm(b), 1e-300)


def direction_norm(direction: Direction) -> float:
    """‖direction‖, in float64."""
    return math.sqrt(sum(float(part.double().square().sum()) for part in direction.values()))
