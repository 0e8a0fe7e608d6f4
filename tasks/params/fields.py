"""Shared types of params: ranges of numbers and lists of choices."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field


def check_name(value: str, built_in: Sequence[str], form: str) -> str:
    """A name of the built-in ones, or one of the user's module; `own` says how that is written. Raises ValueError."""
    if value not in built_in and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
        raise ValueError(f"write one of {', '.join(built_in)}, or {form} of your own, not {value!r}")
    return value


def _or_function(*built_in: str) -> AfterValidator:
    return AfterValidator(lambda value: check_name(value, built_in, "module:function"))


Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
CountFrom0 = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=100)]
LearningRate = Annotated[float, Field(gt=0, le=0.1)]
Price = Annotated[float, Field(ge=0, le=1_000_000)]
Temperature = Annotated[float, Field(gt=0, le=2)]
MicroBatchTokens = Annotated[int, Field(ge=64, le=1_048_576, strict=True)] | Literal["auto"]
Loss = Annotated[str, _or_function("dapo", "grpo", "dr_grpo", "cispo", "sapo", "reinforce")]
Importance = Literal["token", "sequence"]
Baseline = Annotated[str, _or_function("group", "batch", "global", "none", "leave_one_out")]
KlEstimate = Literal["k1", "k2", "k3"]
Device = Literal["auto", "cpu", "cuda"]
Truncated = Literal["learn", "leave_out"]
SamplerCorrection = Literal["none", "truncate", "mask"]
VllmDtype = Literal["float32", "bfloat16", "float16"]
Schedule = Literal["linear", "cosine", "constant"]
SelectionRule = Annotated[str, _or_function("audit", "positive", "top", "bottom", "random", "none")]
ValidationSource = Literal["held_out", "same_batch"]
ValidationSampling = Literal["random", "highest", "lowest"]
ValidationLoss = Literal["seqloss-lastadv", "seqloss-reward", "contrastive"]
Prompts = Literal["exact", "constant"]
Similarity = Literal["dot", "local"]
