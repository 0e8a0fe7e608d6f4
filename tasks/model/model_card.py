"""The model card of an exported policy."""

from typing import Literal

from tasks.model.gguf import is_gguf
from tasks.records import Lineage, PromptFormat

MERGED = """\
model = AutoModelForCausalLM.from_pretrained("{folder}")"""
ADAPTER = """\
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
from pathlib import Path

form = json.loads(Path("{folder}/prompt.json").read_text(encoding="utf-8"))
prompt = form["before"] + asked + form["after"] + form["prefill"]
inputs = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
outputs = model.generate(**inputs, max_new_tokens=256, stop_strings=form["stop"] or None, tokenizer=tokenizer)
```
"""


def model_card(
    lineage: Lineage,
    form: Literal["merged", "adapter"],
    folder: str,
    measured: str | None,
    prompt: PromptFormat | None = None,
) -> str:
    """A short README.md: origin, pass@1 and code that loads the policy and, from the form of its prompts, asks it."""
    own = "weights" in lineage.holds or is_gguf(lineage.base)
    base = f'"{folder}/base"' if own else f'"{lineage.base}"'
    quantized = form == "adapter" and lineage.quantize is not None
    code = (MERGED if form == "merged" else ADAPTER).format(
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
