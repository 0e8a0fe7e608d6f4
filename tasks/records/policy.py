"""Records in the folder of a policy: where it comes from, and the form of its prompts."""

from operator import not_
from typing import Literal

from pydantic import Field

from tasks.records.record import Record

PolicyPart = Literal["weights", "adapter"]
"""Part of a policy in its folder: `model.safetensors` or `adapter/`."""

Dtype = Literal["float32", "bfloat16"]

Quantization = Literal["nf4"]
"""Types of a base's weights in memory."""

PromptStyle = Literal["chat", "turns", "plain", "raw"]
"""chat: one message in the chat template; turns: examples as earlier turns; plain: text; raw: the question alone."""


class Lineage(Record):
    """Origin of a policy: `policy/lineage.json`."""

    version: str  # hash of the policy's weights and of their origin
    parent: str | None  # version of the policy that was updated, or that the run continues
    base: str  # the original base, over all runs: "scratch", a Hugging Face id, a folder or a GGUF file
    round: int
    holds: list[PolicyPart]  # weights: the model's own are in the folder, else those of `base` are used
    base_sha256: str | None = None  # of the folder or file `base`
    quantize: Quantization | None = Field(default=None, exclude_if=not_)  # of the base's weights, below the adapter
    dtype: Dtype | None = Field(default=None, exclude_if=not_)  # of the base; None: by the device, `policy.dtype: auto`
    files: dict[str, str] | None = Field(default=None, exclude_if=not_)  # name → sha256; None: of an older policy


class PromptFormat(Record):
    """Form of the prompts of a policy that has a base: `policy/prompt.json`.

    A prompt is `before`, the question as the environment asks it, `after`, and `prefill`: the beginning of every
    completion, which is not sampled. Quoted control tokens in `before` are marked (tasks/model/text.py).
    """

    style: PromptStyle
    examples: int  # worked examples in `before`
    instructions: bool  # the question is asked with the environment's instructions
    before: str
    after: str
    prefill: str
    stop: list[str]  # texts that end a completion
