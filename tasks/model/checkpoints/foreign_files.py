"""Checks of a model's files: before a library reads them, of their code and of what they name as weights; then of the
loaded weights, that each was in the files and fits, none of the files' is left over, and all numbers are finite."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REMOTE_CODE = "GRAFT_REMOTE_CODE"
"""Environment variable with the base whose own Python code may run. It is no param: `params.yaml` and policy folders
may come from others, and data must not be able to enable code."""

INDEX = "model.safetensors.index.json"
WITH_CODE = ("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json")
"""Files of a model folder in which `auto_map` names classes in Python files."""

NAMED = 3  # weights that an error names

logger = logging.getLogger(__name__)


def is_trusted(base: str, folder: str | None = None) -> bool:
    """Whether the user allows this base to run its own code.

    `folder`: a policy folder made of the base. Its files refer to the base's code as `BASE--module.CLASS`, and a folder
    that refers to any other code, or has code of its own, is not trusted.
    """
    if not base or os.environ.get(REMOTE_CODE) != base:
        return False
    if folder in (None, base):
        return True
    copy = Path(str(folder))
    return not any(copy.rglob("*.py")) and all(code.startswith(f"{base}--") for code in _code_of(copy))


def _code_of(folder: Path) -> Iterator[str]:
    """The classes in Python files that a folder's configurations refer to."""
    for file in WITH_CODE:
        references = _read(folder / file).get("auto_map") or {}
        for reference in references.values() if isinstance(references, dict) else [references]:
            yield from (str(name) for name in (reference if isinstance(reference, list) else [reference]) if name)


def check_weight_files(base: str) -> None:
    """Raises ValueError if a folder has weights in pickles only, or an index that names files other than its own.

    A folder with an adapter is refused too, since transformers would load it besides the model, or another model in its
    place; tasks/model/checkpoints/base_adapter.py loads such a base. For the hub transformers raises.
    """
    names = os.listdir(base) if os.path.isdir(base) else []
    if any(name.endswith(".bin") for name in names) and not any(name.endswith(".safetensors") for name in names):
        raise ValueError("its weights are pytorch_model.bin, not model.safetensors, which use_safetensors asks for")
    if "adapter_config.json" in names:
        raise ValueError("it has an adapter_config.json, so it is an adapter and no model")
    if INDEX in names and "model.safetensors" not in names:
        shards = _read(Path(base, INDEX)).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise ValueError(f"{INDEX} has no weight_map")
        for shard in shards.values():
            if not isinstance(shard, str) or os.path.basename(shard) != shard or not shard.endswith(".safetensors"):
                raise ValueError(f"{INDEX} names {shard!r:.200}, which is no safetensors file of this folder")


def _read(path: Path) -> dict[str, Any]:
    """The object in a JSON file; {} if there is none, so that the library that reads it says what is wrong."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def check_report(model: Any, report: dict[str, Any]) -> None:
    """Raises ValueError if weights were initialised at random, or some of a module's own were left out.

    `report`: the loading info of transformers, which lists neither tied weights nor those that files of an architecture
    are known to lack or to have besides. Weights that no module has, a vision tower's for instance, are logged.
    """
    missing = sorted(report["missing_keys"])
    mismatched = sorted(str(key[0]) for key in report["mismatched_keys"])
    unused = sorted(report["unexpected_keys"])
    if missing or mismatched:
        hint = f", and have {named(unused)}, of other names" if missing and unused else ""
        problem = f"lack {named(missing)}" if missing else f"have other sizes of {named(mismatched)} than config.json"
        raise ValueError(f"its weights {problem}{hint}")
    if foreign := [key for key in unused if _is_of_leaf(model, key)]:
        raise ValueError(f"its weights have {named(foreign)}, which its config.json leaves out")
    if unused:
        logger.warning(f"policy.base: weights that the model does not have are left out: {named(unused)}")


def check_finite(model: Any) -> None:
    """Raises ValueError if a weight is NaN or infinite."""
    floats = ((name, weight) for name, weight in model.named_parameters() if weight.is_floating_point())
    wrong = [name for name, weight in floats if not weight.isfinite().all()]
    if wrong:
        raise ValueError(f"its weights {named(wrong)} hold numbers that are NaN or infinite")


def named(keys: list[str]) -> str:
    """The first keys, and the number of the others."""
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return f"{', '.join(keys[:NAMED])}{more}"


def _is_of_leaf(model: Any, key: str) -> bool:
    """Whether a key names a parameter of a module that computes with parameters of its own."""
    path, modules = key.rpartition(".")[0], dict(model.named_modules())
    module = modules.get(path, modules.get(f"{model.base_model_prefix}.{path}"))
    if not path or module is None or any(module.children()):
        return False
    return any(True for _ in module.parameters())


def correct_tie_flag(model: Any) -> None:
    """Say in the configuration that the embeddings are not tied if the input and the output matrix are two.

    transformers loads a checkpoint with two different ones as it is, with a warning, whatever `tie_word_embeddings`
    says; other libraries, and other versions of it, tie them by that flag.
    """
    inputs, outputs = model.get_input_embeddings(), model.get_output_embeddings()
    if outputs is None or getattr(outputs, "weight", None) is getattr(inputs, "weight", None):
        return
    for config in (model.config, model.config.get_text_config()):
        config.tie_word_embeddings = False
