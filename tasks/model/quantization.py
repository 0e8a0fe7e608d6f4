"""A frozen base in 4 bits: NormalFloat4 with double quantization, by bitsandbytes.

The linear modules of the layers are quantized as they are loaded; embedding, norms and head keep their type. The same
weights give the same codes, so a policy folder names its base and says that it is quantized, and holds no codes.
(Dettmers et al. 2023, QLoRA, arXiv:2305.14314.)
"""

from importlib.util import find_spec
from typing import Any

from tasks.errors import GraftError


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
