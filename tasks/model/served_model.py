"""A policy whose weights a server has: its address there, and what samples need to know of it without them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifacts import read_json
from tasks.environments.prompts import read_format
from tasks.model.foreign_files import is_trusted
from tasks.model.gguf import resolve_base
from tasks.model.load_errors import translate_errors
from tasks.model.policy import Policy, ServedModel, load_policy, load_tokenizer
from tasks.records import Lineage


@dataclass(frozen=True)
class ModelConfigs:
    """In place of a model: its configuration without its weights."""

    config: Any
    generation_config: Any


def load_sampled_policy(folder: Path, served: ServedModel | None) -> Policy:
    """The policy in a folder, to be sampled only: without weights where a server has them."""
    return load_policy(folder) if served is None else _without_weights(folder, served)


def base_to_serve(folder: Path, lineage: Lineage) -> str:
    """What a server loads for a policy folder, below its adapter: a folder, or a Hugging Face id."""
    base = str(folder) if "weights" in lineage.holds else resolve_base(lineage.base)
    return str(Path(base).resolve()) if Path(base).is_dir() else base


def _without_weights(folder: Path, served: ServedModel) -> Policy:
    from transformers import AutoConfig, GenerationConfig

    lineage = read_json(folder / "lineage.json", Lineage)
    base = base_to_serve(folder, lineage)
    trusted = is_trusted(lineage.base, base if "weights" in lineage.holds else None)
    with translate_errors(f"{folder}: its base {base!r} has no config.json", "restore it"):
        config = AutoConfig.from_pretrained(base, trust_remote_code=trusted)
        try:
            generation = GenerationConfig.from_pretrained(base)
        except OSError:  # none of its own: as transformers makes one with the model
            generation = GenerationConfig.from_model_config(config)
    tokenizer = load_tokenizer(str(folder), lineage.base)
    own, form = "weights" in lineage.holds, read_format(folder)
    model = ModelConfigs(config, generation)
    return Policy(model, tokenizer, lineage.version, lineage.base, lineage.base_sha256, own, form, served)
