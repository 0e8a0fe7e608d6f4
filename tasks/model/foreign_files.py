"""Checks of a model folder's files before a library reads them: its code, and the files that it names as weights."""

import json
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
    for name in WITH_CODE:
        references = _read(folder / name).get("auto_map") or {}
        for reference in references.values() if isinstance(references, dict) else [references]:
            yield from (str(one) for one in (reference if isinstance(reference, list) else [reference]) if one)


def check_weight_files(base: str) -> None:
    """Raises ValueError if a folder has weights in pickles only, or an index that names files other than its own.

    A folder with an adapter is refused too, since transformers would load it besides the model, or another model in its
    place; tasks/model/base_adapter.py loads such a base. For the hub transformers raises.
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
