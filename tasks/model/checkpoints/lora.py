"""LoRA adapters: their target modules, the check of an adapter against `policy.lora`, and a base in 4 bits below one.

The base is frozen and in NormalFloat4 with double quantization, by bitsandbytes. (Dettmers et al. 2023, QLoRA,
arXiv:2305.14314.) The linear modules of its layers are quantized as they are loaded; embedding, norms and head keep
their type. The same weights give the same codes, so a policy folder names its base and says that it is quantized, and
holds no codes.
"""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tasks.errors import GraftError
from tasks.params.sections import Lora

ALL_LINEAR = "all-linear"


def linear_modules(model: Any, targets: str | Sequence[str] = ALL_LINEAR) -> set[str]:
    """The full names of the linear modules of `model` that match `targets`, with an adapter or not.

    A target is a module's name or its last parts: `q_proj` matches in every layer. The output layer is excluded. Raises
    GraftError if a target matches no linear module.
    """
    from torch.nn import Linear
    from transformers.pytorch_utils import Conv1D

    head = model.get_output_embeddings()
    names = {
        name.removesuffix(".base_layer")  # a module that has an adapter
        for name, module in model.named_modules()
        if isinstance(module, (Linear, Conv1D)) and module is not head and ".lora_" not in name
    }
    if isinstance(targets, str):
        return names
    matched: set[str] = set()
    for target in targets:
        matching = {name for name in names if name == target or name.endswith(f".{target}")}
        if not matching:
            known = ", ".join(sorted({name.rpartition(".")[2] for name in names}))
            raise GraftError(
                f"policy.lora.targets: {target!r} is no linear module of the model; it has {known}: "
                f"name some of these, or write {ALL_LINEAR}"
            )
        matched |= matching
    return matched


def attach_adapter(model: Any, rank: int, alpha: float, seed: int, targets: str | Sequence[str] = ALL_LINEAR) -> Any:
    """`model` with a new LoRA adapter on `targets`; B = 0, so that its outputs do not change.

    Raises GraftError if a target names no linear module.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    linear_modules(model, targets)
    modules = targets if isinstance(targets, str) else list(targets)
    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=modules, task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):  # A is drawn on the CPU, and no draw of the caller's moves
        torch.manual_seed(seed)
        return get_peft_model(model, config).eval()


def load_adapter(model: Any, folder: Path, is_trainable: bool = False) -> Any:
    """A peft model: `model` with the adapter in a folder. Raises UserWarning where the folder lacks a part of it."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Found missing adapter keys", UserWarning)  # peft would initialise them
        # By itself peft reads the file to a card, even for a model on the CPU.
        return PeftModel.from_pretrained(model, str(folder), is_trainable=is_trainable, torch_device="cpu")


def check_adapter(model: Any, lora: Lora | None, base: str) -> None:
    """Raises GraftError if the adapter of a peft model, which came with `base`, differs from `policy.lora`.

    A run that continues an adapter cannot change its rank, alpha or targets.
    """
    config, plain = model.peft_config["default"], model.get_base_model()
    adapted = set(model.base_model.targeted_module_names)
    if (
        lora is not None
        and (lora.rank, lora.alpha) == (config.r, config.lora_alpha)
        and linear_modules(plain, lora.targets) == adapted
    ):
        return
    targets = ALL_LINEAR if adapted == linear_modules(plain) else config.target_modules
    wanted = "null" if lora is None else _format(lora.rank, lora.alpha, lora.targets)
    raise GraftError(
        f"policy.lora: is {wanted}, but the adapter of {base!r}, which the run would continue, is "
        f"{_format(config.r, config.lora_alpha, targets)}; set policy.lora to that, or give policy.base another model"
    )


def _format(rank: int, alpha: float, targets: Any) -> str:
    """The value for `-S policy.lora=…`."""
    names = targets if isinstance(targets, str) else f"[{', '.join(sorted(targets))}]"
    return f"{{rank: {rank}, alpha: {alpha:g}, targets: {names}}}"


def nf4_options(device: str, dtype: Any) -> dict[str, Any]:
    """Arguments of `from_pretrained` that load a model on `device` in 4 bits; products are computed in `dtype`.

    Raises GraftError without bitsandbytes.
    """
    if not find_spec("bitsandbytes"):
        raise GraftError(
            "policy.quantize: nf4 needs the package bitsandbytes: pip install -c constraints.txt -e '.[nf4]'"
        )
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": config, "device_map": {"": device}}


def keep_weights(model: Any) -> None:
    """Stop bitsandbytes from rounding the scales of a model's weights further in its first pass without gradients.

    It does so on CPUs with bfloat16 products, and such weights give other numbers, and no gradients.
    """
    from bitsandbytes.nn import Linear4bit

    for module in model.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False
