"""Export of a policy in plain Hugging Face layout: merged into its base, or as an adapter.

Before the folder takes its place it is loaded with plain transformers and peft and compared with the policy: a
peft model in another format may reload with wrong weights and not fail. A model card shows how to load it.
"""

import json
from pathlib import Path
from typing import Any, Literal

from tasks.artifacts import atomic_folder, copy_folder, digest_path, write_text
from tasks.environments.prompts import read_format
from tasks.errors import GraftError
from tasks.model.checkpoints.foreign_files import correct_tie_flag, is_trusted
from tasks.model.checkpoints.gguf import find_gguf, is_gguf, resolve_base
from tasks.model.checkpoints.load_errors import translate_errors
from tasks.model.checkpoints.lora import nf4_options
from tasks.model.checkpoints.version import ADAPTER, WEIGHTS, verify_policy
from tasks.records.policy import Lineage, PromptFormat, Quantization

ExportFormat = Literal["merged", "adapter"]
MODEL_FILES = ("config.json", "generation_config.json", WEIGHTS)
NOT_EXPORTED = (*MODEL_FILES, "lineage.json", "value_head.safetensors", "README.md")
BASE = "base"
PROBE_TOKENS = 32  # tokens

LOAD_MERGED = """\
model = AutoModelForCausalLM.from_pretrained("{folder}")"""
LOAD_ADAPTER = """\
model = AutoModelForCausalLM.from_pretrained({base}{options})
model = PeftModel.from_pretrained(model, "{folder}")"""

NF4_CONFIG = """\
config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
"""

PROMPT = """
## Prompt

{style} style with {examples} worked examples, from `prompt.json`. `asked` is the question {asked}.

```python
import json
import re
from pathlib import Path
from transformers.utils.chat_template_utils import mark_control_tokens

form = json.loads(Path("{folder}/prompt.json").read_text(encoding="utf-8"))
special = [re.escape(token.content) for token in tokenizer.added_tokens_decoder.values() if token.special]
asked = mark_control_tokens(asked, re.compile("|".join(special)))  # in a question they are text
prompt = form["before"] + asked + form["after"] + form["prefill"]
inputs = tokenizer(prompt, add_special_tokens=False, sanitize_control_tokens=True, return_tensors="pt")
outputs = model.generate(**inputs, max_new_tokens=256, stop_strings=form["stop"] or None, tokenizer=tokenizer)
```
"""


def export_policy(policy: Path, folder: Path, form: ExportFormat, measured: str | None, float32: bool = False) -> float:
    """Write the policy to `folder` atomically; returns the largest difference of a logit to the policy's, in float32.

    `merged`: a model in its base's type, or in float32 on request. `adapter`: the trained bytes; a base that plain
    libraries cannot load by its name is written next to it. `measured` is the card's line about pass@1. Raises
    GraftError if the folder is not empty or the policy, or its base, is damaged or changed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GraftError(f"{folder}: exists and is not empty; name a new folder")
    lineage = verify_policy(policy)
    if form == "adapter" and "adapter" not in lineage.holds:
        raise GraftError(f"{policy}: has no adapter, all its weights were trained; export it with --merged")
    refuse_changed_base(policy, lineage)
    with translate_errors(f"{policy}: could not be exported", "restore it or its base from a copy"):
        expected = logits_of(load_for_export(policy, lineage))
        with atomic_folder(folder) as new:
            if form == "merged":
                _write_merged(policy, lineage, new, float32)
                loaded = _load(str(new))
            else:
                _write_adapter(policy, lineage, new, folder)
                base = str(new / BASE) if (new / BASE).exists() else lineage.base
                loaded = _load(base, new, lineage.quantize)
            written = logits_of(loaded)
            write_text(new / "README.md", model_card(lineage, form, folder.name, measured, read_format(policy)))
            return float((written - expected).abs().max())


def _write_merged(policy: Path, lineage: Lineage, new: Path, float32: bool) -> None:
    import torch
    from transformers import AutoConfig

    _copy_tokenizer(policy, new)
    if "adapter" not in lineage.holds and not float32:
        for name in MODEL_FILES:
            copy_folder(policy / name, new / name)
        return
    base, model = _base_of(policy, lineage), load_for_export(policy, lineage)
    if "adapter" in lineage.holds:
        model = model.merge_and_unload()  # in float32: rounded once, at the end
    dtype = AutoConfig.from_pretrained(base, trust_remote_code=is_trusted(base)).dtype
    model.to(torch.float32 if float32 or dtype is None else dtype).save_pretrained(new)


def _write_adapter(policy: Path, lineage: Lineage, new: Path, folder: Path) -> None:
    _copy_tokenizer(policy, new)
    copy_folder(policy / ADAPTER, new)
    base = str(Path(lineage.base).resolve()) if Path(lineage.base).is_dir() else lineage.base
    if "weights" in lineage.holds or is_gguf(lineage.base):
        _copy_tokenizer(policy, new / BASE)
        for name in MODEL_FILES:
            copy_folder(Path(_base_of(policy, lineage), name), new / BASE / name)
        base = str((folder / BASE).resolve())
    config = new / "adapter_config.json"
    content = json.loads(config.read_text(encoding="utf-8")) | {"base_model_name_or_path": base}
    write_text(config, json.dumps(content, indent=2, sort_keys=True) + "\n")


def _copy_tokenizer(policy: Path, new: Path) -> None:
    for file in sorted(policy.iterdir()):
        if file.is_file() and file.name not in NOT_EXPORTED:
            copy_folder(file, new / file.name)


def refuse_changed_base(policy: Path, lineage: Lineage) -> None:
    if "weights" in lineage.holds or lineage.base_sha256 is None:
        return
    kind = "file" if is_gguf(lineage.base) else "folder"
    base = find_gguf(lineage.base) if kind == "file" else Path(lineage.base)
    if not base.exists() or digest_path(base) != lineage.base_sha256:
        what = "changed since the policy was trained from it" if base.exists() else "gone"
        raise GraftError(f"{policy}: its base, the {kind} {lineage.base}, is {what}; restore it")


def _base_of(policy: Path, lineage: Lineage) -> str:
    return str(policy) if "weights" in lineage.holds else resolve_base(lineage.base)


def load_for_export(policy: Path, lineage: Lineage) -> Any:
    adapter = policy / ADAPTER if "adapter" in lineage.holds else None
    return _load(_base_of(policy, lineage), adapter, lineage.quantize)


def _load(base: str, adapter: Path | None = None, quantize: Quantization | None = None) -> Any:
    """Load with plain transformers and peft, in float32 on the CPU, so that logits are the same on every machine.

    The weights of a quantized base are as it computes with them, in float32 too.
    """
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        base,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=is_trusted(base),
        **(nf4_options("cpu", torch.float32) if quantize else {}),
    )
    if quantize:
        model = model.dequantize()
    correct_tie_flag(model)
    return (PeftModel.from_pretrained(model, str(adapter)) if adapter else model).eval()


def logits_of(model: Any) -> Any:
    """Logits of tokens spread over the vocabulary."""
    import torch

    ids = torch.arange(PROBE_TOKENS)[None] * 7919 % model.config.vocab_size
    with torch.inference_mode():
        return model(input_ids=ids).logits


def model_card(
    lineage: Lineage,
    form: ExportFormat,
    folder: str,
    measured: str | None,
    prompt: PromptFormat | None,
) -> str:
    """A short README.md: origin, pass@1 and code that loads the policy and, from the form of its prompts, asks it."""
    is_beside = "weights" in lineage.holds or is_gguf(lineage.base)
    base = f'"{folder}/base"' if is_beside else f'"{lineage.base}"'
    quantized = form == "adapter" and lineage.quantize is not None
    code = (LOAD_MERGED if form == "merged" else LOAD_ADAPTER).format(
        folder=folder, base=base, options=", quantization_config=config" if quantized else ""
    )
    head = [f"library_name: {'transformers' if form == 'merged' else 'peft'}", "pipeline_tag: text-generation"]
    imports = "from transformers import AutoModelForCausalLM, AutoTokenizer"
    if form == "adapter":
        imports = f"from peft import PeftModel\n{imports}"
    if quantized:
        imports, code = f"{imports}, BitsAndBytesConfig", NF4_CONFIG + code
    made_of = "made from scratch" if lineage.base == "scratch" else f"trained from {lineage.base}"
    what = "merged into its base" if form == "merged" else "as a LoRA adapter"
    return f"""\
---
{chr(10).join(head)}
---

# Policy {lineage.version}

A policy of Graft, {made_of}, {what}. Round {lineage.round} of its run; parent: {lineage.parent or "none"}.

pass@1: {measured or "not measured"}.

```python
{imports}

{code}
tokenizer = AutoTokenizer.from_pretrained("{folder}")
```
{_prompt_section(prompt, folder) if prompt else ""}"""


def _prompt_section(form: PromptFormat, folder: str) -> str:
    asked = "with the environment's instructions" if form.instructions else "followed by a line break"
    return PROMPT.format(style=form.style.capitalize(), examples=form.examples or "no", asked=asked, folder=folder)
