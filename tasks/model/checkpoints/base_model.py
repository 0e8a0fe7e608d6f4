"""Load a base: a causal language model and its tokenizer, whose weights and files have been checked."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tasks.errors import GraftError
from tasks.model.checkpoints.foreign_files import check_report, check_weight_files, correct_tie_flag, is_trusted
from tasks.model.checkpoints.gguf import resolve_base
from tasks.model.checkpoints.load_errors import translate_errors
from tasks.model.checkpoints.lora import keep_weights, nf4_options
from tasks.model.device import device_of, for_device
from tasks.records.policy import Dtype, Quantization

ShardModel = Callable[[Any, str, Any], None]
"""(model, device, dtype of its weights or None): distributes it over processes in place; distributed/sharding.py."""

DATE = datetime(2024, 7, 26)  # of no time zone, as transformers' own
"""The date that templates print; Llama's print it where they know none."""

_DIRECTIVES = ("-d", "-e", "-H", "-I", "-j", "-m", "-M", "-S", "-y", *"aAbBcCdDeFgGhHIjklmMpPrRSTuUVwWxXyYzZ")
_CLOCK = "strftime_now"
_MACRO = f"{{% macro {_CLOCK}(format) %}}"


def load_model(
    base: str, quantize: Quantization | None = None, dtype: Dtype | None = None, device: str | None = None
) -> Any:
    """A causal language model by folder, GGUF file or Hugging Face id, without any adapter.

    `dtype`: of its weights; None: float32 on a CPU, the checkpoint's on an accelerator. `device`: meta reads no weights
    but their names and sizes. Raises GraftError if it is no model, or its weights are not those of its configuration.
    """
    remedy = "give a Hugging Face id, a folder with config.json and weights, a GGUF file, or scratch"
    with translate_errors(f"policy.base: {base!r} is no causal language model", remedy):
        return load_base(base, base, dtype, quantize=quantize, device=device)


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


def load_base(
    base: str,
    made_of: str,
    dtype: Dtype | None = None,
    shard: ShardModel | None = None,
    quantize: Quantization | None = None,
    device: str | None = None,
) -> Any:
    """The model of `load_model`, whose libraries' errors are raised as they are; `shard` distributes it.

    `made_of`: the first origin of the weights; for a policy folder it differs from `base`.
    """
    import torch
    from transformers import AutoModelForCausalLM

    device = device or device_of(base)
    name = dtype or (None if device == "meta" else for_device(device, cpu="float32", cuda=None))
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


def fix_date(template: Any) -> Any:
    """A chat template, or templates by name, in which `strftime_now` gives DATE; as it is where it asks for no date.

    A template that has been fixed keeps its date. The function is a macro in the template itself, as transformers lets
    nobody pass another, and so that the date stays with a tokenizer that is saved.
    """
    if isinstance(template, dict):
        return {name: fix_date(text) for name, text in template.items()}
    if not isinstance(template, str) or _CLOCK not in template or _MACRO in template:
        return template
    parts = "".join(f"|replace('%{letter}', '{DATE.strftime(f'%{letter}')}')" for letter in _DIRECTIVES)
    return f"{_MACRO}{{{{ format{parts} }}}}{{% endmacro %}}\n{template}"
