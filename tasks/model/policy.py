"""A policy on disk and in memory: a causal language model, with a LoRA adapter or trained whole, and its tokenizer.

A policy folder is plain Hugging Face: `config.json`, `tokenizer.json`, the adapter in `adapter/` if there is one, and
`model.safetensors` where the model's weights are nowhere else: a run made them from scratch, or trained them.
transformers and peft load it with no code of ours:

    model = AutoModelForCausalLM.from_pretrained(folder)          # no model.safetensors: the base of lineage.json
    model = PeftModel.from_pretrained(model, f"{folder}/adapter")    # if there is one
"""

import copy
import json
import os
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifacts import atomic_folder, read_json, write_json, write_text
from tasks.errors import GraftError, TransientError
from tasks.model.hub_errors import is_away
from tasks.model.lora import ALL, linear_modules
from tasks.model.version import WEIGHTS, version_of
from tasks.records import Lineage, Part

SCRATCH = "scratch"

REMOTE_CODE = "GRAFT_REMOTE_CODE"
"""Variable of the environment that names the base whose own Python code may run. No param: `params.yaml`, a policy
folder and whatever else comes from others are data, and data must not be able to switch code on."""

LOADING = threading.Lock()
"""Held while transformers loads something where threads may compute shards: the first import of its parts fails in the
second of two threads, and until a model is loaded it has functions of torch replaced."""


@dataclass
class Policy:
    """`model` is in eval mode: sampling, scoring and training never see dropout.

    It is a peft model where an adapter is trained, a plain one where all its weights are.
    """

    model: Any
    tokenizer: Any
    version: str  # content hash of base name and weights
    base: str  # what it was first made of: "scratch", a Hugging Face id or a folder
    base_sha256: str | None = None  # of that folder
    own_weights: bool = False  # True: its model's weights are no longer those of `base`, whatever is trained now

    @property
    def device(self) -> Any:
        return next(self.model.parameters()).device

    @property
    def has_adapter(self) -> bool:
        from peft import PeftModel

        return isinstance(self.model, PeftModel)

    @property
    def holds(self) -> list[Part]:
        """What its folder has to hold for others to load it."""
        own = self.own_weights or self.base == SCRATCH or not self.has_adapter
        parts: list[tuple[Part, bool]] = [("weights", own), ("adapter", self.has_adapter)]
        return [part for part, is_there in parts if is_there]


def load_policy(folder: Path, instead_of: Policy | None = None) -> Policy:
    """Load a policy folder. Raises GraftError where the folder or its base is not a model.

    `instead_of`: another policy of the same run, which is given up for it, so that one model is in memory. Where an
    adapter is trained, the model below it is used again.
    """
    lineage = read_json(folder / "lineage.json", Lineage)
    model = None
    if instead_of is not None:
        model = instead_of.model.unload() if instead_of.has_adapter else None
        instead_of.model = None
    with damage_named(f"{folder}: no whole policy", "rebuild it: graft stage bootstrap, or update@ROUND"):
        if "weights" in lineage.holds and not (folder / WEIGHTS).exists():
            raise FileNotFoundError(f"no {WEIGHTS}")
        if model is None:
            model = _model(str(folder), lineage.base) if "weights" in lineage.holds else _base_of(folder, lineage)
        if "adapter" in lineage.holds:
            model = _with_adapter(model, folder / "adapter")
    own = "weights" in lineage.holds
    tokenizer = load_tokenizer(str(folder), lineage.base)
    return Policy(model.eval(), tokenizer, lineage.version, lineage.base, lineage.base_sha256, own)


def load_model(base: str) -> Any:
    """A causal language model by folder or Hugging Face id, without any adapter.

    float32 on CPU, the checkpoint's own type on an accelerator. Raises GraftError where it is no model.
    """
    remedy = "give a Hugging Face id, a folder with config.json and weights, or scratch"
    with damage_named(f"policy.base: {base!r} is no causal language model", remedy):
        return _model(base, base)


def load_tokenizer(base: str, made_of: str | None = None) -> Any:
    """The tokenizer of a folder or Hugging Face id, with a padding token. Raises GraftError.

    `made_of`: what the policy in that folder was first made of.
    """
    from transformers import AutoTokenizer

    with damage_named(f"policy.base: {base!r} has no tokenizer", "add tokenizer.json to it"):
        tokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=may_run(made_of or base))
        if not tokenizer("1", add_special_tokens=False)["input_ids"]:  # AutoTokenizer makes do without any file
            raise ValueError("it knows no tokens")
    if tokenizer.eos_token_id is None:
        raise GraftError(f"policy.base: the tokenizer of {base!r} has no end-of-text token; set eos_token in it")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def may_run(base: str) -> bool:
    """Whether the user has named this base as one whose own code may run."""
    return bool(base) and os.environ.get(REMOTE_CODE) == base


def _model(base: str, made_of: str) -> Any:
    """`made_of` names what the weights in `base` were first made of: it is `base` itself, but for a policy folder."""
    import torch
    from transformers import AutoModelForCausalLM

    device = best_device()
    refuse_pickles(base)
    return AutoModelForCausalLM.from_pretrained(
        base,
        dtype=torch.float32 if device == "cpu" else "auto",
        use_safetensors=True,  # the other format, pytorch_model.bin, is a pickle
        trust_remote_code=may_run(made_of),  # left out, transformers asks on the terminal
    ).to(device)


def refuse_pickles(base: str) -> None:
    """Raises ValueError where a folder's weights are in torch's own format alone; of the hub's transformers says it."""
    names = os.listdir(base) if os.path.isdir(base) else []
    if any(name.endswith(".bin") for name in names) and not any(name.endswith(".safetensors") for name in names):
        raise ValueError("its weights are pytorch_model.bin, not model.safetensors, which use_safetensors asks for")


def _base_of(folder: Path, lineage: Lineage) -> Any:
    remedy = "put it back where it was, or start a run from another"
    with damage_named(f"{folder}: its base {lineage.base!r} is no causal language model", remedy):
        return _model(lineage.base, lineage.base)


def _with_adapter(model: Any, folder: Path) -> Any:
    from peft import PeftModel

    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (folder / name).exists():  # peft would look for it on the network
            raise FileNotFoundError(f"no adapter/{name}")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Found missing adapter keys", UserWarning)  # peft would make them up
        return PeftModel.from_pretrained(model, str(folder), is_trainable=True)


@contextmanager
def damage_named(trouble: str, remedy: str) -> Iterator[None]:
    """What transformers, tokenizers, peft and safetensors raise for missing and damaged files, as one line."""
    try:
        yield
    except (GraftError, MemoryError):
        raise
    except Exception as error:
        reason, remedy = reason_of(error), remedy_of(error) or remedy
        if is_away(error):
            raise TransientError(f"{trouble} ({reason}); try again later, or name a folder that is here") from error
        raise GraftError(f"{trouble} ({reason}); {remedy}") from error


def reason_of(error: Exception) -> str:
    """The first line of what a library says, with the kind of error where that says nothing by itself."""
    words = str(error).strip().split("\n")[0]
    return words if isinstance(error, OSError | ValueError | RuntimeError) else f"{type(error).__name__}: {words}"


def remedy_of(error: Exception) -> str | None:
    """What to do where a base is not to be had as plain data; None for all else."""
    if "custom code" in str(error) or "trust_remote_code" in str(error):
        return (
            "it brings Python code of its own, which is not run: take another, or if you trust it name it in the "
            f"environment, {REMOTE_CODE}=BASE, as it stands in params.yaml"
        )
    if "use_safetensors" in str(error):
        return "weights are read from safetensors alone, as pytorch_model.bin is a pickle: convert it, or take another"
    return None


def best_device() -> str:
    """cuda, mps or cpu, the first that is there."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def attach_adapter(model: Any, rank: int, alpha: float, seed: int, targets: str | Sequence[str] = ALL) -> Any:
    """`model` with a fresh LoRA adapter on `targets`; B = 0, so that it computes the same as before.

    Raises GraftError where a target names no linear module.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    linear_modules(model, targets)
    modules = targets if isinstance(targets, str) else list(targets)
    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=modules, task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, config).eval()


def save_policy(policy: Policy, folder: Path, parent: str | None, round: int) -> Lineage:
    """Write a policy folder whole. The model's weights go along only where no base has them."""
    with atomic_folder(folder) as new, _errors_of_the_disk():
        holds = policy.holds
        if "weights" in holds:
            # One file, however large: only its name is looked for when the folder is loaded.
            _without_adapter(policy).save_pretrained(new, max_shard_size="1000TB")
        else:
            policy.model.get_base_model().config.save_pretrained(new)
        policy.tokenizer.save_pretrained(new)
        if "adapter" in holds:
            # peft would ask the network how many tokens the base knows, to see whether there are new ones.
            policy.model.save_pretrained(new / "adapter", save_embedding_layers=False)
            (new / "adapter" / "README.md").unlink(missing_ok=True)  # a model card with machine-dependent text
            _stabilise(new / "adapter" / "adapter_config.json", None if "weights" in holds else policy.base)
        lineage = Lineage(
            version=version_of(new, policy.base, policy.base_sha256),
            parent=parent,
            base=policy.base,
            base_sha256=policy.base_sha256,
            round=round,
            holds=holds,
        )
        write_json(new / "lineage.json", lineage)
    return lineage


@contextmanager
def _errors_of_the_disk() -> Iterator[None]:
    """safetensors tells in words of its own that a disk is full."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def _without_adapter(policy: Policy) -> Any:
    """The model as plain transformers would save it; of a peft model a copy."""
    return copy.deepcopy(policy.model).unload() if policy.has_adapter else policy.model


def _stabilise(config: Path, base: str | None) -> None:
    """peft writes sets in hash order and absolute paths: the same policy must give the same bytes everywhere."""
    content = json.loads(config.read_text())
    if isinstance(content["target_modules"], list):
        content["target_modules"] = sorted(content["target_modules"])
    content["base_model_name_or_path"] = base
    write_text(config, json.dumps(content, indent=2, sort_keys=True) + "\n")


def encode_prompt(policy: Policy, text: str) -> list[int]:
    """Token ids of a prompt. With a chat template the text is the user's message."""
    if policy.tokenizer.chat_template:
        message = [{"role": "user", "content": text}]
        ids: list[int] = policy.tokenizer.apply_chat_template(
            message, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return ids
    return list(policy.tokenizer(text, add_special_tokens=False)["input_ids"])


def encode_completion(policy: Policy, code: str) -> list[int]:
    """Token ids of a workflow, ending with the end-of-text token."""
    return [*policy.tokenizer(code, add_special_tokens=False)["input_ids"], policy.tokenizer.eos_token_id]


def decode(policy: Policy, tokens: list[int]) -> str:
    """The text of completion tokens, without the end-of-text token."""
    return str(policy.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))
