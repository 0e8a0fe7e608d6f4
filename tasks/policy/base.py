"""A policy on disk and in memory: a causal language model with a LoRA adapter, and its tokenizer.

A policy folder is plain Hugging Face: `config.json`, `tokenizer.json` and, when this run made the base from
scratch, `model.safetensors`; the adapter lies in `adapter/`. transformers and peft load it with no code of ours:

    model = AutoModelForCausalLM.from_pretrained(folder)          # or the base named by lineage.json
    model = PeftModel.from_pretrained(model, f"{folder}/adapter")

A base that has an adapter of its own (an earlier policy folder) stands for both: the adapter is merged first.
"""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.artifacts import digest_path, digest_text, read_json, whole_folder, write_json, write_text
from tasks.errors import GraftError
from tasks.params import Policy as PolicyParams
from tasks.records import Lineage

SCRATCH = "scratch"


@dataclass
class Policy:
    """`model` is a peft model in eval mode: sampling, scoring and training never see dropout."""

    model: Any
    tokenizer: Any
    version: str  # content hash of base name and weights
    base: str  # "scratch", a Hugging Face id or a folder

    @property
    def device(self) -> Any:
        return next(self.model.parameters()).device


def load_policy(folder: Path, params: PolicyParams) -> Policy:
    """Load a policy folder. Raises GraftError where the folder or the base is not a model."""
    lineage = read_json(folder / "lineage.json", Lineage)
    base = None if (folder / "model.safetensors").exists() else load_base(params.base)
    with _named(f"{folder}: no whole policy", "rebuild it: graft stage bootstrap, or update@ROUND"):
        model = _with_adapter(_model(str(folder)) if base is None else base, folder / "adapter")
    return Policy(model.eval(), load_tokenizer(str(folder)), lineage.version, params.base)


def load_model(base: str) -> Any:
    """A causal language model by folder or Hugging Face id, without any adapter.

    float32 on CPU, the checkpoint's own type on an accelerator. Raises GraftError where it is no model.
    """
    remedy = "give a Hugging Face id, a folder with config.json and weights, or scratch"
    with _named(f"policy.base: {base!r} is no causal language model", remedy):
        return _model(base)


def load_base(base: str) -> Any:
    """The model that a run's adapter sits on; a policy folder of an earlier run has its adapter merged in."""
    model = load_model(base)
    adapter = Path(base, "adapter")
    if not adapter.is_dir():
        return model
    with _named(f"policy.base: the adapter of {base!r} cannot be loaded", "restore or remove the folder adapter/"):
        return _with_adapter(model, adapter).merge_and_unload()


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


def attach_adapter(model: Any, rank: int, alpha: float, seed: int) -> Any:
    """`model` with a fresh LoRA adapter on all its linear layers; B = 0, so that it computes the same as before."""
    import torch
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, config).eval()


def save_policy(policy: Policy, folder: Path, parent: str | None, round: int) -> Lineage:
    """Write a policy folder whole. The base's weights go along only when the run made them itself."""
    with whole_folder(folder) as new:
        if policy.base == SCRATCH:
            _base_copy(policy.model).save_pretrained(new)
        else:
            policy.model.get_base_model().config.save_pretrained(new)
        policy.tokenizer.save_pretrained(new)
        policy.model.save_pretrained(new / "adapter")
        (new / "adapter" / "README.md").unlink(missing_ok=True)  # a model card with machine-dependent text
        _stabilise(new / "adapter" / "adapter_config.json", policy.base)
        weights = [digest_path(p) for p in (new / "model.safetensors", new / "adapter") if p.exists()]
        version = digest_text("\n".join([policy.base, *weights]))[:16]
        lineage = Lineage(version=version, parent=parent, base=policy.base, round=round)
        write_json(new / "lineage.json", lineage)
    return lineage


def _base_copy(model: Any) -> Any:
    """The model without its adapter, as plain transformers would save it."""
    return copy.deepcopy(model).unload()


def _stabilise(config: Path, base: str) -> None:
    """peft writes sets in hash order and absolute paths: the same policy must give the same bytes everywhere."""
    content = json.loads(config.read_text())
    content["target_modules"] = sorted(content["target_modules"])
    content["base_model_name_or_path"] = None if base == SCRATCH else base
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
