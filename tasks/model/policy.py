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
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tasks.artifacts import atomic_folder, read_json, write_json, write_text
from tasks.environments.prompts import FILE as PROMPT_FILE
from tasks.environments.prompts import SCRATCH as SCRATCH
from tasks.environments.prompts import cut_at_stop, prompt_of, read_format
from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.model.chat_template import fix_date, render_chat
from tasks.model.control_tokens import encode, quote
from tasks.model.device import device_of
from tasks.model.foreign_files import check_report, check_weight_files, correct_tie_flag, is_trusted
from tasks.model.gguf import resolve_base
from tasks.model.load_errors import translate_disk_errors, translate_errors
from tasks.model.lora import ALL_LINEAR, keep_weights, linear_modules, nf4_options
from tasks.model.version import LINEAGE, WEIGHTS, digest_policy
from tasks.params.fields import Device
from tasks.records.policy import Dtype, Lineage, PolicyPart, PromptFormat, Quantization
from tasks.records.problems import Problem
from tasks.records.search import Engine

Shard = Callable[[Any, str, Any], None]
"""(model, device, dtype of its weights or None): distributes it over processes in place; distributed/sharding.py."""

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

    It is a peft model with an adapter, a plain one without, and has no weights if a server samples (vllm/serve.py).
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
        return ids, _decode(self.tokenizer, ids)

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
        own = self.own_weights or self.base == SCRATCH or not self.has_adapter
        parts: dict[PolicyPart, bool] = {"weights": own, "adapter": self.has_adapter}
        return [part for part, needed in parts.items() if needed]


def load_policy(
    folder: Path, instead_of: Policy | None = None, shard: Shard | None = None, device: str | None = None
) -> Policy:
    """Load a policy folder. Raises GraftError if the folder or its base is not a model.

    `instead_of`: another policy of the same run that is discarded, so that one model is in memory; the model below its
    adapter is reused, sharded or not. `shard`: distributes the model below the adapter; None: it is whole here.
    `device`: as for `load_model`.
    """
    lineage = read_json(folder / LINEAGE, Lineage)
    own, adapted = "weights" in lineage.holds, "adapter" in lineage.holds
    model = None
    if instead_of is not None:
        model = instead_of.model.unload() if instead_of.has_adapter else None
        instead_of.model = None
    with translate_errors(f"{folder}: no complete policy", "rebuild it: graft stage bootstrap, or update@ROUND"):
        if own and not (folder / WEIGHTS).exists():
            raise FileNotFoundError(f"no {WEIGHTS}")
        if shard and not adapted:
            raise GraftError(f"update.sharded: {folder} has no adapter, which is what is trained; set it to false")
        if model is None:
            dtype = lineage.dtype if adapted else TRAINED_DTYPE
            load = partial(_model, made_of=lineage.base, dtype=dtype, shard=shard, quantize=lineage.quantize)
            if own:
                model = load(str(folder), device=device)
            else:
                no_base = f"{folder}: its base {lineage.base!r} is no causal language model"
                with translate_errors(no_base, "restore it, or start a run from another"):
                    model = load(lineage.base, device=device)
        if adapted:
            model = _with_adapter(model, folder / "adapter")
    tokenizer = load_tokenizer(str(folder), lineage.base)
    form = read_format(folder)
    sharded = shard or (instead_of and instead_of.weights_file)
    file = folder / WEIGHTS if own and sharded else None
    policy = Policy(model.eval(), tokenizer, lineage.version, lineage.base, lineage.base_sha256, own, form)
    return replace(policy, weights_file=file, quantize=lineage.quantize, dtype=lineage.dtype)


def load_model(
    base: str, quantize: Quantization | None = None, dtype: Dtype | None = None, device: str | None = None
) -> Any:
    """A causal language model by folder, GGUF file or Hugging Face id, without any adapter.

    `dtype`: of its weights; None: float32 on a CPU, the checkpoint's on an accelerator. `device`: meta reads no weights
    but their names and sizes. Raises GraftError if it is no model, or its weights are not those of its configuration.
    """
    remedy = "give a Hugging Face id, a folder with config.json and weights, a GGUF file, or scratch"
    with translate_errors(f"policy.base: {base!r} is no causal language model", remedy):
        return _model(base, base, dtype, quantize=quantize, device=device)


def load_tokenizer(base: str, made_of: str | None = None) -> Any:
    """The tokenizer of a folder, GGUF file or Hugging Face id, with a padding token. Raises GraftError.

    `made_of`: the first origin of the policy in that folder.
    """
    from transformers import AutoTokenizer

    with translate_errors(f"policy.base: {base!r} has no tokenizer", "add tokenizer.json to it"):
        tokenizer = AutoTokenizer.from_pretrained(
            resolve_base(base), trust_remote_code=is_trusted(made_of or base, base)
        )
        if not tokenizer("1", add_special_tokens=False)["input_ids"]:  # AutoTokenizer does not fail without any file
            raise ValueError("it knows no tokens")
    if tokenizer.eos_token_id is None:
        raise GraftError(f"policy.base: the tokenizer of {base!r} has no end-of-text token; set eos_token in it")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.chat_template = fix_date(tokenizer.chat_template)
    return tokenizer


def _model(
    base: str,
    made_of: str,
    dtype: Dtype | None = None,
    shard: Shard | None = None,
    quantize: Quantization | None = None,
    device: str | None = None,
) -> Any:
    """`made_of`: the first origin of the weights; for a policy folder it differs from `base`."""
    import torch
    from transformers import AutoModelForCausalLM

    device = device or device_of(base)
    name = dtype or ("float32" if device == "cpu" else None)
    type = getattr(torch, name) if name else None
    options = nf4_options(device, type or torch.bfloat16) if quantize else {}
    if device == "meta":
        options = {"device_map": "meta"}
    check_weight_files(base)
    model, report = AutoModelForCausalLM.from_pretrained(
        resolve_base(base),
        dtype="auto" if shard else type or "auto",  # the file's own is mapped: no copy
        use_safetensors=True,  # the other format, pytorch_model.bin, is a pickle
        trust_remote_code=is_trusted(made_of, base),  # without it transformers asks on the terminal
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are in the report
        **options,
    )
    check_report(model, report)
    correct_tie_flag(model)
    if quantize:
        keep_weights(model)
        return model
    if shard is None:
        return model.to(device)
    shard(model, device, type)
    return model


def _with_adapter(model: Any, folder: Path) -> Any:
    from peft import PeftModel

    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (folder / name).exists():  # peft would look for it on the network
            raise FileNotFoundError(f"no adapter/{name}")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Found missing adapter keys", UserWarning)  # peft would initialise them
        # peft would read the file to a card, even for a model on the CPU
        return PeftModel.from_pretrained(model, str(folder), is_trainable=True, torch_device="cpu")


def policy_device(folder: Path) -> Device:
    """The device on which a policy folder is loaded."""
    lineage = read_json(folder / LINEAGE, Lineage)
    return device_of(str(folder) if "weights" in lineage.holds else lineage.base)


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
            policy.model.get_base_model().config.save_pretrained(new)
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
        lineage = Lineage(version="", parent=parent, base=policy.base, round=round, holds=holds)
        made_of = {"base_sha256": policy.base_sha256, "quantize": policy.quantize, "dtype": policy.dtype}
        lineage = digest_policy(new, lineage.model_copy(update=made_of))
        write_json(new / LINEAGE, lineage)
    return lineage


def _save_weights(policy: Policy, folder: Path) -> None:
    """The model's config and weights, in one file of any size: loading expects this name."""
    if policy.weights_file is None:
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


def encode_prompt(policy: Policy, text: str) -> list[int]:
    """Token ids of a prompt of `problem_prompt` or `chat_prompt`. Raises GraftError if the model lacks one of them."""
    ids = encode(policy.tokenizer, text)
    if ids and (last := max(ids)) >= policy.vocabulary:
        token = policy.tokenizer.convert_ids_to_tokens(last)
        raise GraftError(
            f"policy.base: a prompt contains {token!r}, which is token {last} of a model with {policy.vocabulary} "
            "embeddings; resize its embeddings, or take the token out of its chat template and of the problems"
        )
    return ids


def problem_prompt(policy: Policy, environment: Environment, problem: Problem, served: bool = False) -> str:
    """The prompt of a problem in the policy's form; control tokens that the problem quotes are marked as text."""
    as_text = partial(quote, policy.tokenizer)
    return prompt_of(environment, policy.prompt_format, problem, policy.base, served, as_text)


def chat_prompt(policy: Policy, message: str) -> str:
    """The prompt of a user's message, in the chat template if there is one; control tokens in it are marked as text."""
    message = quote(policy.tokenizer, message)
    if not policy.tokenizer.chat_template:
        return message
    return render_chat(policy.tokenizer, [{"role": "user", "content": message}])


def encode_completion(policy: Policy, text: str) -> list[int]:
    """Token ids of a completion whose text is known, in which control tokens are text; the end-of-text token follows.

    A prefilled beginning is left out: as much of the text as the prompt ends with.
    """
    prefill = policy.prompt_format.prefill if policy.prompt_format else ""
    common = next((n for n in range(min(len(prefill), len(text)), 0, -1) if prefill.endswith(text[:n])), 0)
    return [*_encode_continuation(policy, text[common:]), policy.tokenizer.eos_token_id]


def _encode_continuation(policy: Policy, text: str) -> list[int]:
    """Token ids that decode to `text`: those after a line break where the tokenizer begins a text with a blank."""
    quoted = quote(policy.tokenizer, text)
    line, lined, ids = (encode(policy.tokenizer, piece) for piece in ("\n", f"\n{quoted}", quoted))
    after = lined[len(line) :] if lined[: len(line)] == line else ids
    return after if decode(policy, after) == text != decode(policy, ids) else ids


def decode(policy: Policy, tokens: Sequence[int]) -> str:
    """The text of tokens that follow others, without special tokens and the end token: the text of all, less theirs."""
    kept = list(tokens[:-1] if tokens and tokens[-1] in policy.end_tokens else tokens)
    ids, word = policy.word
    text = _decode(policy.tokenizer, [*ids, *kept])
    return text.removeprefix(word) if text.startswith(word) else _decode(policy.tokenizer, kept)


def _decode(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def completion_text(policy: Policy, tokens: Sequence[int]) -> str:
    """The text of a completion: the prefilled beginning, then the tokens' text up to a stop string.

    A message of a chat begins without the one blank that tokenizers put before its first word.
    """
    text, form = decode(policy, tokens), policy.prompt_format
    if form is None:
        return text
    text = cut_at_stop(text, form.stop)
    message = form.style in ("chat", "turns") and not form.prefill
    return form.prefill + (text[1:] if message and text[:1] == " " != text[1:2] else text)


def is_truncated(policy: Policy, tokens: Sequence[int]) -> bool:
    """Whether a completion was cut at its length limit: it ends with no end token and has no stop string."""
    if not tokens or tokens[-1] in policy.end_tokens:
        return False
    text = decode(policy, tokens)
    return cut_at_stop(text, policy.stop) == text


def count_before_stop(policy: Policy, tokens: Sequence[int]) -> int:
    """The number of tokens that begin before a stop string: those that are learnt."""
    if not policy.stop or tokens[-1] in policy.end_tokens:
        return len(tokens)
    kept = len(cut_at_stop(decode(policy, tokens), policy.stop))
    return next((n for n in range(len(tokens)) if len(decode(policy, tokens[:n])) >= kept), len(tokens)) or 1
