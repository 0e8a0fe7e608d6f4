"""Load and save a policy: a causal language model, fully trained or with a LoRA adapter, and its tokenizer.

A policy folder is plain Hugging Face: `config.json`, `tokenizer.json`, the adapter in `adapter/` if there is one, and
`model.safetensors` unless the weights are those of its base. transformers and peft load it without Graft:

    model = AutoModelForCausalLM.from_pretrained(folder)          # no model.safetensors: the base of lineage.json
    model = PeftModel.from_pretrained(model, f"{folder}/adapter")    # if there is one
"""

import copy
import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tasks.artifacts import atomic_folder, read_json, write_json, write_text
from tasks.environments.prompts import FILE as PROMPT_FILE
from tasks.environments.prompts import SCRATCH, read_format
from tasks.errors import GraftError
from tasks.model.checkpoints.base_model import ShardModel, load_base, load_tokenizer
from tasks.model.checkpoints.load_errors import translate_disk_errors, translate_errors
from tasks.model.checkpoints.lora import load_adapter
from tasks.model.checkpoints.version import LINEAGE, WEIGHTS, digest_policy
from tasks.model.device import device_of
from tasks.params.fields import Device
from tasks.records.policy import Dtype, Lineage, PolicyPart, PromptFormat, Quantization
from tasks.records.search import Engine

TRAINED_DTYPE: Dtype = "float32"
"""The type of a model whose own weights are trained. AdamW at a usual learning rate changes next to no weight of 16
bits: of one with bfloat16's 8, a step of 1e-6 is rounded away (docs/grpo.md#numbers)."""

LOAD_LOCK = threading.Lock()
"""Held while transformers loads in a thread: its lazy imports are not thread-safe, and loading patches torch."""


@dataclass(frozen=True)
class ServedModel:
    """A policy on a server; plain data, which workers on other machines receive too."""

    address: str  # http(s)://…/v1
    name: str  # of the model on that server
    engine: Engine
    max_model_len: int  # tokens of a prompt with its completion


@dataclass
class Policy:
    """`model` is in eval mode: sampling, scoring and training have no dropout.

    It is a peft model if an adapter is trained, a plain one if all weights are, and has no weights if a server samples
    the policy (tasks/model/sampling/vllm/serve.py).
    """

    model: Any
    tokenizer: Any
    version: str  # content hash of base name and weights
    base: str  # its first origin: "scratch", a Hugging Face id, a folder or a GGUF file
    base_sha256: str | None = None  # of that folder or file
    own_weights: bool = False  # True: the model's weights are no longer those of `base`
    prompt_format: PromptFormat | None = None  # None: the question is the prompt
    served: ServedModel | None = None  # the server that samples it; None: it is sampled here
    weights_file: Path | None = None  # of a sharded model with own weights: where they are, as no process has them all
    quantize: Quantization | None = None  # of the model below the adapter
    dtype: Dtype | None = None  # of the model below the adapter; None: by the device

    @property
    def device(self) -> Any:
        return next(self.model.parameters()).device

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a completion: the tokenizer's, and those of the generation config of a chat model."""
        more = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        listed = [] if more is None else [more] if isinstance(more, int) else list(more)
        return list(dict.fromkeys([self.tokenizer.eos_token_id, *listed]))

    @cached_property
    def word(self) -> tuple[list[int], str]:
        """A word, in tokens and as text, put before tokens that are decoded: sentencepiece drops the first blank."""
        ids = list(self.tokenizer("a", add_special_tokens=False)["input_ids"])
        return ids, self.text_of(ids)

    def text_of(self, ids: list[int]) -> str:
        """The text of tokens, without special ones."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    @property
    def stop(self) -> list[str]:
        """The strings that end a completion."""
        return self.prompt_format.stop if self.prompt_format else []

    @property
    def vocabulary(self) -> int:
        """The number of tokens that the model knows; a tokenizer may have more, or fewer."""
        return int(self.model.config.get_text_config().vocab_size)

    @property
    def has_adapter(self) -> bool:
        from peft import PeftModel

        return isinstance(self.model, PeftModel)

    @property
    def holds(self) -> list[PolicyPart]:
        """The parts that its folder needs to be loadable."""
        has_weights = self.own_weights or self.base == SCRATCH or not self.has_adapter
        parts: dict[PolicyPart, bool] = {"weights": has_weights, "adapter": self.has_adapter}
        return [part for part, needed in parts.items() if needed]


def load_policy(
    folder: Path, instead_of: Policy | None = None, shard: ShardModel | None = None, device: str | None = None
) -> Policy:
    """Load a policy folder. Raises GraftError if the folder or its base is not a model.

    `instead_of`: another policy of the same run that is discarded, so that one model is in memory; the model below its
    adapter is reused, sharded or not. `shard`: distributes the model below the adapter; None: it is whole here.
    `device`: as for `load_model`.
    """
    lineage = read_json(folder / LINEAGE, Lineage)
    has_weights, has_adapter = "weights" in lineage.holds, "adapter" in lineage.holds
    model = None
    if instead_of is not None:
        model = instead_of.model.unload() if instead_of.has_adapter else None
        instead_of.model = None  # its memory is free even where the policy is still held
    with translate_errors(f"{folder}: no complete policy", "rebuild it: graft stage bootstrap, or update@ROUND"):
        if has_weights and not (folder / WEIGHTS).exists():
            raise FileNotFoundError(f"no {WEIGHTS}")
        if shard and not has_adapter:
            raise GraftError(f"update.sharded: {folder} has no adapter, which is what is trained; set it to false")
        if model is None:
            dtype = lineage.dtype if has_adapter else TRAINED_DTYPE
            load = partial(load_base, made_of=lineage.base, dtype=dtype, shard=shard, quantize=lineage.quantize)
            if has_weights:
                model = load(str(folder), device=device)
            else:
                no_base = f"{folder}: its base {lineage.base!r} is no causal language model"
                with translate_errors(no_base, "restore it, or start a run from another"):
                    model = load(lineage.base, device=device)
        if has_adapter:
            for name in ("adapter_config.json", "adapter_model.safetensors"):
                if not (folder / "adapter" / name).exists():  # peft would look for it on the network
                    raise FileNotFoundError(f"no adapter/{name}")
            model = load_adapter(model, folder / "adapter", is_trainable=True)
    tokenizer = load_tokenizer(str(folder), lineage.base)
    form = read_format(folder)
    sharded = shard or (instead_of and instead_of.weights_file)
    file = folder / WEIGHTS if has_weights and sharded else None
    policy = Policy(model.eval(), tokenizer, lineage.version, lineage.base, lineage.base_sha256, has_weights, form)
    return replace(policy, weights_file=file, quantize=lineage.quantize, dtype=lineage.dtype)


def policy_device(folder: Path) -> Device:
    """The device on which a policy folder is loaded."""
    lineage = read_json(folder / LINEAGE, Lineage)
    return device_of(str(folder) if "weights" in lineage.holds else lineage.base)


def save_policy(
    policy: Policy, folder: Path, parent: str | None, round: int, write_more: Callable[[Path], None] | None = None
) -> Lineage:
    """Write a policy folder atomically, with the model's weights only if no base has them.

    `write_more`: called with the new folder, for files that belong to the policy, too.
    """
    with atomic_folder(folder) as new, translate_disk_errors():
        holds = policy.holds
        if "weights" in holds:
            _save_weights(policy, new)
        else:
            policy.model.get_base_model().config.save_pretrained(new)  # so that AutoConfig knows the folder
        policy.tokenizer.save_pretrained(new)
        if policy.prompt_format:
            write_json(new / PROMPT_FILE, policy.prompt_format)
        if "adapter" in holds:
            # True would ask the network for the base's vocabulary size.
            policy.model.save_pretrained(new / "adapter", save_embedding_layers=False)
            (new / "adapter" / "README.md").unlink(missing_ok=True)  # a model card with machine-dependent text
            _stabilise(new / "adapter" / "adapter_config.json", None if "weights" in holds else policy.base)
        if write_more:
            write_more(new)
        origin = Lineage(version="", parent=parent, base=policy.base, round=round, holds=holds)
        made_of = {"base_sha256": policy.base_sha256, "quantize": policy.quantize, "dtype": policy.dtype}
        lineage = digest_policy(new, origin.model_copy(update=made_of))
        write_json(new / LINEAGE, lineage)
    return lineage


def _save_weights(policy: Policy, folder: Path) -> None:
    """The model's config and weights, in one file of any size: loading expects this name."""
    if policy.weights_file is None:
        # `unload` takes the adapter out of the model itself, which goes on being trained.
        model = copy.deepcopy(policy.model).unload() if policy.has_adapter else policy.model
        model.save_pretrained(folder, max_shard_size="1000TB")
        return
    model = policy.model.get_base_model()
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    shutil.copyfile(policy.weights_file, folder / WEIGHTS)  # below an adapter they never change


def _stabilise(config: Path, base: str | None) -> None:
    """The same bytes on every machine: peft writes sets in hash order and absolute paths."""
    content = json.loads(config.read_text())
    if isinstance(content["target_modules"], list):
        content["target_modules"] = sorted(content["target_modules"])
    content["base_model_name_or_path"] = base
    write_text(config, json.dumps(content, indent=2, sort_keys=True) + "\n")
