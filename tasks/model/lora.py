"""LoRA adapters: which linear modules they sit on, and whether one is what `policy.lora` asks for."""

from collections.abc import Sequence
from typing import Any

from tasks.errors import GraftError
from tasks.params.sections import Lora

ALL = "all-linear"


def linear_modules(model: Any, targets: str | Sequence[str] = ALL) -> set[str]:
    """The full names of the linear modules of `model` that `targets` stands for, whether they have an adapter or not.

    A target is a module's name or the end of one: `q_proj` is that of every layer. The output layer is none of them.
    Raises GraftError where a target is the name of no linear module.
    """
    from torch.nn import Linear
    from transformers.pytorch_utils import Conv1D

    head = model.get_output_embeddings()
    known = {
        name.removesuffix(".base_layer")  # where an adapter sits already, the module itself
        for name, module in model.named_modules()
        if isinstance(module, (Linear, Conv1D)) and module is not head and ".lora_" not in name
    }
    if isinstance(targets, str):
        return known
    found: set[str] = set()
    for target in targets:
        matching = {name for name in known if name == target or name.endswith(f".{target}")}
        if not matching:
            names = ", ".join(sorted({name.rpartition(".")[2] for name in known}))
            raise GraftError(
                f"policy.lora.targets: {target!r} is no linear module of the model; it has {names}: "
                f"name some of these, or write {ALL}"
            )
        found |= matching
    return found


def check_continued(model: Any, lora: Lora | None, base: str) -> None:
    """Raises GraftError where the adapter of a peft model, which came with `base`, is not what `policy.lora` asks for.

    A run that continues an adapter cannot change its form.
    """
    config, plain = model.peft_config["default"], model.get_base_model()
    adapted = set(model.base_model.targeted_module_names)
    if (
        lora is not None
        and (lora.rank, lora.alpha) == (config.r, config.lora_alpha)
        and linear_modules(plain, lora.targets) == adapted
    ):
        return
    targets = ALL if adapted == linear_modules(plain) else config.target_modules
    wanted = "null" if lora is None else _shown(lora.rank, lora.alpha, lora.targets)
    raise GraftError(
        f"policy.lora: is {wanted}, but the adapter of {base!r}, which the run would continue, is "
        f"{_shown(config.r, config.lora_alpha, targets)}; set policy.lora to that, or give policy.base another model"
    )


def _shown(rank: int, alpha: float, targets: Any) -> str:
    """As `-S policy.lora=…` takes it."""
    names = targets if isinstance(targets, str) else f"[{', '.join(sorted(targets))}]"
    return f"{{rank: {rank}, alpha: {alpha:g}, targets: {names}}}"
