"""A policy on disk and in memory: a causal language model, with a LoRA adapter or trained whole, and its tokenizer.

A policy folder is plain Hugging Face: `config.json`, `tokenizer.json`, the adapter in `adapter/` if there is one, and
`model.safetensors` where the model's weights are nowhere else: a run made them from scratch, or trained them.
transformers and peft load it with no code of ours:

    model = AutoModelForCausalLM.from_pretrained(folder)          # no model.safetensors: the base of lineage.json
    model = PeftModel.from_pretrained(model, f"{folder}/adapter")    # if there is one
"""

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifacts import digest_path, digest_text, read_json, whole_folder, write_json, write_text
from tasks.errors import GraftError
from tasks.policy.lora import ALL, linear_modules
from tasks.records import Lineage, Part

SCRATCH = "scratch"
WEIGHTS = "model.safetensors"


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
    with _named(f"{folder}: no whole policy", "rebuild it: graft stage bootstrap, or update@ROUND"):
        if "weights" in lineage.holds and not (folder / WEIGHTS).exists():
            raise FileNotFoundError(f"no {WEIGHTS}")
        if model is None:
            model = _model(str(folder)) if "weights" in lineage.holds else _base_of(folder, lineage)
        if "adapter" in lineage.holds:
            model = _with_adapter(model, folder / "adapter")
    own = "weights" in lineage.holds
    tokenizer = load_tokenizer(str(folder))
    return Policy(model.eval(), tokenizer, lineage.version, lineage.base, lineage.base_sha256, own)


def load_model(base: str) -> Any:
    """A causal language model by folder or Hugging Face id, without any adapter.

    float32 on CPU, the checkpoint's own type on an accelerator. Raises GraftError where it is no model.
    """
    remedy = "give a Hugging Face id, a folder with config.json and weights, or scratch"
    with _named(f"policy.base: {base!r} is no causal language model", remedy):
        return _model(base)


def load_tokenizer(base: str) -> Any:
    """The tokenizer of a folder or Hugging Face id, with a padding token. Raises GraftError."""
    from transformers import AutoTokenizer

    with _named(f"policy.base: {base!r} has no tokenizer", "add tokenizer.json to it"):
        tokenizer = AutoTokenizer.from_pretrained(base)
        if not tokenizer("1", add_special_tokens=False)["input_ids"]:  # AutoTokenizer makes do without any file
            raise ValueError("it knows no tokens")
    if tokenizer.eos_token_id is None:
        raise GraftError(f"policy.base: the tokenizer of {base!r} has no end-of-text token; set eos_token in it")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _model(base: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    device = best_device()
    return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32 if device == "cpu" else "auto").to(device)


def _base_of(folder: Path, lineage: Lineage) -> Any:
    remedy = "put it back where it was, or start a run from another"
    with _named(f"{folder}: its base {lineage.base!r} is no causal language model", remedy):
        return _model(lineage.base)


def _with_adapter(model: Any, folder: Path) -> Any:
    from peft import PeftModel

    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (folder / name).exists():  # peft would look for it on the network
            raise FileNotFoundError(f"no adapter/{name}")
    return PeftModel.from_pretrained(model, str(folder), is_trainable=True)


@contextmanager
def _named(trouble: str, remedy: str) -> Iterator[None]:
    """What transformers, peft and safetensors raise for missing and damaged files, as one line."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().split("\n")[0]
        raise GraftError(f"{trouble} ({reason}); {remedy}") from error


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
    with whole_folder(folder) as new:
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
        weights = [digest_path(p) for p in (new / WEIGHTS, new / "adapter") if p.exists()]
        made_of = [policy.base, *([policy.base_sha256] if policy.base_sha256 else [])]
        version = digest_text("\n".join([*made_of, *weights]))[:16]
        lineage = Lineage(
            version=version,
            parent=parent,
            base=policy.base,
            base_sha256=policy.base_sha256,
            round=round,
            holds=holds,
        )
        write_json(new / "lineage.json", lineage)
    return lineage


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
