"""Load and save a policy: a causal language model, fully trained or with a LoRA adapter, and its tokenizer.

A policy folder is plain Hugging Face: `config.json`, `tokenizer.json`, the adapter in `adapter/` if there is one, and
`model.safetensors` unless the weights are those of its base. transformers and peft load it without Graft:

    model = AutoModelForCausalLM.from_pretrained(folder)          # no model.safetensors: the base of lineage.json
    model = PeftModel.from_pretrained(model, f"{folder}/adapter")    # if there is one
"""

import copy
import json
import os
import re
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tasks.artifacts import atomic_folder, read_json, write_json, write_text
from tasks.environments.prompts import FILE as PROMPT_FILE
from tasks.environments.prompts import SCRATCH as SCRATCH
from tasks.environments.prompts import cut_at_stop, read_format
from tasks.errors import GraftError, TransientError
from tasks.model.gguf import resolve_base
from tasks.model.hub_errors import is_transient
from tasks.model.lora import ALL_LINEAR, linear_modules
from tasks.model.out_of_memory import is_out_of_memory
from tasks.model.quantization import keep_weights, nf4_options
from tasks.model.version import WEIGHTS, compute_version
from tasks.records import Engine, Lineage, Part, PromptFormat, Quantization

REMOTE_CODE = "GRAFT_REMOTE_CODE"
"""Environment variable with the base whose own Python code may run. It is no param: `params.yaml` and policy folders
may come from others, and data must not be able to enable code."""

Shard = Callable[[Any, str, Any], None]
"""(model, device, dtype of its weights or None): distributes it over processes in place; distributed/sharding.py."""

LOAD_LOCK = threading.Lock()
"""Held while transformers loads in a thread: its lazy imports are not thread-safe, and loading patches torch."""


@dataclass(frozen=True)
class ServedModel:
    """A policy on a server; plain data, which workers on other machines receive too."""

    address: str  # http(s)://…/v1
    name: str  # of the model on that server
    engine: Engine
    max_model_len: int  # tokens of a prompt with its completion
    parallel: int
    seconds: float


@dataclass
class Policy:
    """`model` is in eval mode: sampling, scoring and training have no dropout.

    It is a peft model if an adapter is trained, a plain one if all weights are, and has no weights if a server samples
    the policy (tasks/model/served_model.py).
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

    @property
    def device(self) -> Any:
        return next(self.model.parameters()).device

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a completion: the tokenizer's, and those of the generation config of a chat model."""
        more = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        listed = [] if more is None else [more] if isinstance(more, int) else list(more)
        return list(dict.fromkeys([self.tokenizer.eos_token_id, *listed]))

    @property
    def has_adapter(self) -> bool:
        from peft import PeftModel

        return isinstance(self.model, PeftModel)

    @property
    def holds(self) -> list[Part]:
        """The parts that its folder needs to be loadable."""
        own = self.own_weights or self.base == SCRATCH or not self.has_adapter
        parts: dict[Part, bool] = {"weights": own, "adapter": self.has_adapter}
        return [part for part, needed in parts.items() if needed]


def load_policy(folder: Path, instead_of: Policy | None = None, shard: Shard | None = None) -> Policy:
    """Load a policy folder. Raises GraftError if the folder or its base is not a model.

    `instead_of`: another policy of the same run that is discarded, so that one model is in memory; the model below its
    adapter is reused, sharded or not. `shard`: distributes the model below the adapter; None: it is whole here.
    """
    lineage = read_json(folder / "lineage.json", Lineage)
    model = None
    if instead_of is not None:
        model = instead_of.model.unload() if instead_of.has_adapter else None
        instead_of.model = None
    with translate_errors(f"{folder}: no complete policy", "rebuild it: graft stage bootstrap, or update@ROUND"):
        if "weights" in lineage.holds and not (folder / WEIGHTS).exists():
            raise FileNotFoundError(f"no {WEIGHTS}")
        if shard and "adapter" not in lineage.holds:
            raise GraftError(f"grpo.sharded: {folder} has no adapter, which is what is trained; set it to false")
        if model is None:
            load = partial(_model, made_of=lineage.base, shard=shard, quantize=lineage.quantize)
            model = load(str(folder)) if "weights" in lineage.holds else _base_of(folder, lineage, load)
        if "adapter" in lineage.holds:
            model = _with_adapter(model, folder / "adapter")
    own = "weights" in lineage.holds
    tokenizer = load_tokenizer(str(folder), lineage.base)
    form = read_format(folder)
    sharded = shard or (instead_of and instead_of.weights_file)
    file = folder / WEIGHTS if own and sharded else None
    identity = (lineage.version, lineage.base, lineage.base_sha256)
    return Policy(model.eval(), tokenizer, *identity, own, form, weights_file=file, quantize=lineage.quantize)


def load_model(base: str, quantize: Quantization | None = None) -> Any:
    """A causal language model by folder, GGUF file or Hugging Face id, without any adapter.

    float32 on a CPU, the checkpoint's own type on an accelerator, or `quantize`. Raises GraftError if it is no model.
    """
    remedy = "give a Hugging Face id, a folder with config.json and weights, a GGUF file, or scratch"
    with translate_errors(f"policy.base: {base!r} is no causal language model", remedy):
        return _model(base, base, quantize=quantize)


def load_tokenizer(base: str, made_of: str | None = None) -> Any:
    """The tokenizer of a folder, GGUF file or Hugging Face id, with a padding token. Raises GraftError.

    `made_of`: the first origin of the policy in that folder.
    """
    from transformers import AutoTokenizer

    with translate_errors(f"policy.base: {base!r} has no tokenizer", "add tokenizer.json to it"):
        tokenizer = AutoTokenizer.from_pretrained(resolve_base(base), trust_remote_code=is_trusted(made_of or base))
        if not tokenizer("1", add_special_tokens=False)["input_ids"]:  # AutoTokenizer does not fail without any file
            raise ValueError("it knows no tokens")
    if tokenizer.eos_token_id is None:
        raise GraftError(f"policy.base: the tokenizer of {base!r} has no end-of-text token; set eos_token in it")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def is_trusted(base: str) -> bool:
    """Whether the user allows this base to run its own code."""
    return bool(base) and os.environ.get(REMOTE_CODE) == base


def _model(base: str, made_of: str, shard: Shard | None = None, quantize: Quantization | None = None) -> Any:
    """`made_of`: the first origin of the weights; for a policy folder it differs from `base`."""
    import torch
    from transformers import AutoModelForCausalLM

    device = best_device()
    dtype = torch.float32 if device == "cpu" else None
    options = nf4_options(device, dtype or torch.bfloat16) if quantize else {}
    refuse_pickles(base)
    model = AutoModelForCausalLM.from_pretrained(
        resolve_base(base),
        dtype="auto" if shard else dtype or "auto",  # the file's own is mapped: no copy
        use_safetensors=True,  # the other format, pytorch_model.bin, is a pickle
        trust_remote_code=is_trusted(made_of),  # without it transformers asks on the terminal
        **options,
    )
    if quantize:
        keep_weights(model)
        return model
    if shard is None:
        return model.to(device)
    shard(model, device, dtype)
    return model


def refuse_pickles(base: str) -> None:
    """Raises ValueError if a folder has weights in torch's own format only; for the hub transformers raises."""
    names = os.listdir(base) if os.path.isdir(base) else []
    if any(name.endswith(".bin") for name in names) and not any(name.endswith(".safetensors") for name in names):
        raise ValueError("its weights are pytorch_model.bin, not model.safetensors, which use_safetensors asks for")


def _base_of(folder: Path, lineage: Lineage, load: Callable[[str], Any]) -> Any:
    remedy = "restore it, or start a run from another"
    with translate_errors(f"{folder}: its base {lineage.base!r} is no causal language model", remedy):
        return load(lineage.base)


def _with_adapter(model: Any, folder: Path) -> Any:
    from peft import PeftModel

    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (folder / name).exists():  # peft would look for it on the network
            raise FileNotFoundError(f"no adapter/{name}")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Found missing adapter keys", UserWarning)  # peft would initialise them
        return PeftModel.from_pretrained(model, str(folder), is_trainable=True)


@contextmanager
def translate_errors(problem: str, remedy: str) -> Iterator[None]:
    """Turn what transformers, tokenizers, peft and safetensors raise for damaged files into a one-line GraftError."""
    try:
        yield
    except GraftError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        reason, remedy = error_reason(error), error_remedy(error) or remedy
        if is_transient(error):
            raise TransientError(f"{problem} ({reason}); try again later, or name a local folder") from error
        raise GraftError(f"{problem} ({reason}); {remedy}") from error


def error_reason(error: Exception) -> str:
    """The first line of a library's message, with the class of the error where the message is not clear without it."""
    line = str(error).strip().split("\n")[0]
    return line if isinstance(error, OSError | ValueError | RuntimeError) else f"{type(error).__name__}: {line}"


def error_remedy(error: Exception) -> str | None:
    """The remedy for a base with code or pickles; None for any other error."""
    if "custom code" in str(error) or "trust_remote_code" in str(error):
        return (
            "it comes with Python code, which is not run: choose another, or if you trust it name it in the "
            f"environment, {REMOTE_CODE}=BASE, as in params.yaml"
        )
    if "use_safetensors" in str(error):
        return "weights are read from safetensors only, as pytorch_model.bin is a pickle: convert it, or choose another"
    return None


def best_device() -> str:
    """The first available of cuda, mps and cpu."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def attach_adapter(model: Any, rank: int, alpha: float, seed: int, targets: str | Sequence[str] = ALL_LINEAR) -> Any:
    """`model` with a new LoRA adapter on `targets`; B = 0, so that its outputs do not change.

    Raises GraftError if a target names no linear module.
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
    """Write a policy folder atomically, with the model's weights only if no base has them."""
    with atomic_folder(folder) as new, _translate_disk_errors():
        holds = policy.holds
        if "weights" in holds:
            _save_weights(policy, new)
        else:
            policy.model.get_base_model().config.save_pretrained(new)
        policy.tokenizer.save_pretrained(new)
        if policy.prompt_format:
            write_json(new / PROMPT_FILE, policy.prompt_format)
        if "adapter" in holds:
            # True would ask the network for the base's vocabulary size.
            policy.model.save_pretrained(new / "adapter", save_embedding_layers=False)
            (new / "adapter" / "README.md").unlink(missing_ok=True)  # a model card with machine-dependent text
            _stabilise(new / "adapter" / "adapter_config.json", None if "weights" in holds else policy.base)
        lineage = Lineage(
            version=compute_version(new, policy.base, policy.base_sha256, policy.quantize),
            parent=parent,
            base=policy.base,
            base_sha256=policy.base_sha256,
            round=round,
            holds=holds,
            quantize=policy.quantize,
        )
        write_json(new / "lineage.json", lineage)
    return lineage


@contextmanager
def _translate_disk_errors() -> Iterator[None]:
    """safetensors has its own error for a full disk."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def _save_weights(policy: Policy, folder: Path) -> None:
    """The model's config and weights, in one file of any size: loading expects this name."""
    if policy.weights_file is None:
        _without_adapter(policy).save_pretrained(folder, max_shard_size="1000TB")
        return
    model = policy.model.get_base_model()
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    shutil.copyfile(policy.weights_file, folder / WEIGHTS)  # below an adapter they never change


def _without_adapter(policy: Policy) -> Any:
    """The model as a plain transformers model; for a peft model a copy."""
    return copy.deepcopy(policy.model).unload() if policy.has_adapter else policy.model


def _stabilise(config: Path, base: str | None) -> None:
    """The same bytes on every machine: peft writes sets in hash order and absolute paths."""
    content = json.loads(config.read_text())
    if isinstance(content["target_modules"], list):
        content["target_modules"] = sorted(content["target_modules"])
    content["base_model_name_or_path"] = base
    write_text(config, json.dumps(content, indent=2, sort_keys=True) + "\n")


def encode_prompt(policy: Policy, text: str) -> list[int]:
    """Token ids of a prompt, in which special tokens are text."""
    return list(policy.tokenizer(text, add_special_tokens=False)["input_ids"])


def chat_prompt(policy: Policy, message: str) -> str:
    """The prompt of a user's message: in the chat template, if there is one."""
    if not policy.tokenizer.chat_template:
        return message
    messages = [{"role": "user", "content": message}]
    return str(policy.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))


def encode_completion(policy: Policy, text: str) -> list[int]:
    """Token ids of a completion whose text is known, ending with the end-of-text token.

    A prefilled beginning is left out: as much of the text as the prompt ends with.
    """
    prefill = policy.prompt_format.prefill if policy.prompt_format else ""
    common = next((n for n in range(min(len(prefill), len(text)), 0, -1) if prefill.endswith(text[:n])), 0)
    return [*policy.tokenizer(text[common:], add_special_tokens=False)["input_ids"], policy.tokenizer.eos_token_id]


def decode(policy: Policy, tokens: Sequence[int]) -> str:
    """The text of tokens, without special tokens and the end token."""
    kept = tokens[:-1] if tokens and tokens[-1] in policy.end_tokens else tokens
    return str(policy.tokenizer.decode(list(kept), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def completion_text(policy: Policy, tokens: Sequence[int]) -> str:
    """The text of a completion: the prefilled beginning, then the tokens' text up to a stop string."""
    form = policy.prompt_format
    return decode(policy, tokens) if form is None else form.prefill + cut_at_stop(decode(policy, tokens), form.stop)


def is_truncated(policy: Policy, tokens: Sequence[int]) -> bool:
    """Whether a completion was cut at its length limit: it ends with no end token and has no stop string."""
    if not tokens or tokens[-1] in policy.end_tokens:
        return False
    text, stop = decode(policy, tokens), policy.prompt_format.stop if policy.prompt_format else []
    return cut_at_stop(text, stop) == text


def count_before_stop(policy: Policy, tokens: Sequence[int]) -> int:
    """The number of tokens that begin before a stop string: those that are learnt."""
    stop = policy.prompt_format.stop if policy.prompt_format else []
    if not stop or tokens[-1] in policy.end_tokens:
        return len(tokens)
    kept = len(cut_at_stop(decode(policy, tokens), stop))
    return next((n for n in range(len(tokens)) if len(decode(policy, tokens[:n])) >= kept), len(tokens)) or 1
