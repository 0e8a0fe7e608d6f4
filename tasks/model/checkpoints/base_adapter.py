"""An adapter of peft as a base, as supervised fine-tuning leaves it: merged into the model that it was trained on.

Graft's own adapter is trained on top of the merged model, whose weights no other folder has.
"""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tasks.artifacts import digest_path, digest_text, read_json
from tasks.errors import GraftError
from tasks.model.checkpoints.base_model import load_model
from tasks.model.checkpoints.foreign_files import named
from tasks.model.checkpoints.gguf import find_gguf, is_gguf
from tasks.model.checkpoints.load_errors import translate_errors
from tasks.model.checkpoints.lora import load_adapter
from tasks.records.policy import Dtype

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TOKENIZER = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")

logger = logging.getLogger(__name__)


class _Config(BaseModel):
    """What is read of an adapter's configuration here; peft reads all of it."""

    peft_type: str
    task_type: str | None = None
    base_model_name_or_path: str | None = None
    layer_replication: object | None = None
    megatron_config: object | None = None
    revision: str | None = None


def adapter_folder(base: str) -> Path | None:
    """The folder of a base that is an adapter: itself, or its download from the hub; None for any other base."""
    if os.path.isdir(base):
        return Path(base) if os.path.isfile(Path(base, CONFIG)) else None
    if is_gguf(base):
        return None
    from huggingface_hub import snapshot_download
    from transformers.utils import find_adapter_config_file

    with translate_errors(f"policy.base: {base!r} is no causal language model", "give a Hugging Face id or a folder"):
        if find_adapter_config_file(base) is None:
            return None
        return Path(snapshot_download(base, ignore_patterns=["*.bin", "*.pt", "*.py", "checkpoint-*"]))


def base_of_adapter(folder: Path) -> str:
    """The model that the adapter in `folder` was trained on: a folder, a GGUF file, or a Hugging Face id.

    It is `folder` itself if that has a model too, else `base_model_name_or_path`: as a path from here, then from
    `folder`. Raises GraftError if the adapter cannot be merged into it.
    """
    config = folder / CONFIG
    if any(not file.name.startswith("adapter_") for file in folder.glob("*.safetensors")):
        return str(folder)
    base = read_json(config, _Config).base_model_name_or_path
    if not base:
        raise GraftError(f"{config}: base_model_name_or_path names no model; add the one that it was trained on")
    for place in (Path(base), folder / base):
        if os.path.isdir(place) or (is_gguf(base) and os.path.isfile(place)):
            return os.path.normpath(place)
    if base.startswith((".", "/", "~")) or base.count("/") > 1 or is_gguf(base):
        raise GraftError(f"{config}: base_model_name_or_path: no folder {base}; correct it to where that model is now")
    return base


def find_base(base: str, root: Path = Path()) -> Path | None:
    """The folder or GGUF file of a base; None if there is none, as for a Hugging Face id.

    Raises GraftError if it is named as a GGUF file that is not there.
    """
    if is_gguf(base):
        return find_gguf(base, root)
    return root / base if os.path.isdir(root / base) else None


def digest_base(path: Path) -> str:
    """Digest of the folder or GGUF file of a base; of an adapter also that of its model's folder."""
    digest = digest_path(path)
    if os.path.isfile(path / CONFIG):
        model = base_of_adapter(path)
        if os.path.isdir(model) and Path(model) != path:
            return digest_text(f"{digest}\n{digest_path(Path(model))}")
    return digest


def tokenizer_of_adapter(folder: Path) -> str:
    """Where its tokenizer is: in the adapter's folder if it has one, else in its model's."""
    return str(folder) if any((folder / name).is_file() for name in TOKENIZER) else base_of_adapter(folder)


def load_adapted(folder: Path, dtype: Dtype | None = None, device: str | None = None) -> Any:
    """The model of an adapter with the adapter merged into its weights; with `device` meta both, without weights.

    `dtype`: of its weights, as in `load_model`. Raises GraftError if they do not belong together, or an adapter of this
    kind cannot be merged.
    """
    _check_config(folder)
    base = base_of_adapter(folder)
    with _without_adapter(Path(base)) if Path(base) == folder else nullcontext(base) as source:
        model = load_model(source, dtype=dtype, device=device)
    logger.info(f"policy.base: the adapter {folder} is merged into {base}")
    with translate_errors(
        f"policy.base: {str(folder)!r} is no adapter of {base!r}", "name the adapter's own model in its config"
    ):
        return _merged(model, folder, device)


def _merged(model: Any, folder: Path, device: str | None) -> Any:
    _resize_embeddings(model, folder / WEIGHTS)
    adapted = load_adapter(model, folder)
    report = adapted.load_adapter(str(folder), "default", torch_device="cpu")  # from_pretrained does not return it
    unused = [key for key in report.unexpected_keys if adapted.base_model.prefix in key]  # not copies of whole modules
    if unused:
        raise ValueError(f"it has {named(sorted(unused))}, which the model has not")
    return model if device == "meta" else adapted.merge_and_unload(safe_merge=False)


def _resize_embeddings(model: Any, weights: Path) -> None:
    """As many embeddings as the adapter has: tokens were added before it was trained."""
    from safetensors import safe_open

    names = {name for name, module in model.named_modules() if module is model.get_input_embeddings()}
    with safe_open(weights, "pt") as file:
        for key in file.keys():  # noqa: SIM118 (no dictionary)
            if any(key.endswith((f"{name}.weight", f"{name}.modules_to_save.weight")) for name in names):
                rows = file.get_slice(key).get_shape()[0]
                if rows != model.get_input_embeddings().num_embeddings:
                    model.resize_token_embeddings(rows, mean_resizing=False)


def _check_config(folder: Path) -> None:
    """Raises GraftError unless it is an adapter that peft can merge into a language model."""
    from peft import PEFT_TYPE_TO_CONFIG_MAPPING

    file = folder / CONFIG
    config = read_json(file, _Config)
    kinds: dict[str, Any] = dict(PEFT_TYPE_TO_CONFIG_MAPPING)
    kind = kinds.get(config.peft_type)
    remedy = "merge it into its model with peft, and name that"
    if not (folder / WEIGHTS).is_file():
        raise GraftError(
            f"{folder}: has {CONFIG} but no {WEIGHTS}; add that, or delete {CONFIG} if there is no adapter"
        )
    if kind is None or kind().is_prompt_learning:
        raise GraftError(f"{file}: peft_type: {config.peft_type!r:.100} cannot be merged; name another adapter")
    if config.task_type not in (None, "CAUSAL_LM"):
        raise GraftError(f"{file}: task_type: {config.task_type!r:.100}; name an adapter of a CAUSAL_LM")
    for name in ("layer_replication", "megatron_config"):
        if getattr(config, name):
            raise GraftError(f"{file}: {name} is set, which is not supported; {remedy}")
    if config.revision not in (None, "main"):
        raise GraftError(f"{file}: revision: {config.revision!r:.100} of its model is not supported; {remedy}")


@contextmanager
def _without_adapter(folder: Path) -> Iterator[str]:
    """Links to the files of a folder but for its adapter, which transformers would load without merging it."""
    with tempfile.TemporaryDirectory(prefix="graft-") as made:
        for file in folder.iterdir():
            if not file.name.startswith("adapter_"):
                Path(made, file.name).symlink_to(file.resolve())
        yield made
