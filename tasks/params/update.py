"""The section `update` of `params.yaml`: the update of a round."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from tasks.params.fields import (
    Baseline,
    Count,
    Importance,
    KlEstimate,
    LearningRate,
    Loss,
    MicroBatchTokens,
    SamplerCorrection,
    Schedule,
    Share,
    Truncated,
)
from tasks.params.sections import Section


class Update(Section):
    group_size: Annotated[int, Field(ge=1, le=1024)]
    prompts_per_step: Count
    epochs: Annotated[int, Field(ge=1, le=64)]
    learning_rate: LearningRate
    schedule: Schedule
    warmup_steps: Annotated[int, Field(ge=0, le=10_000, strict=True)]
    bf16: bool
    micro_batch_tokens: MicroBatchTokens
    checkpointing: bool
    deterministic: bool
    processes: Annotated[int, Field(ge=1, le=64, strict=True)]
    sharded: bool
    loss: Loss
    importance: Importance
    advantages: Baseline
    sampler_correction: SamplerCorrection
    truncated: Truncated
    clip_low: Share
    clip_high: Annotated[float, Field(ge=0, le=10)]
    negative_weight: Share
    beta: Annotated[float, Field(ge=0, le=10)]
    kl_target: Annotated[float, Field(gt=0, le=100)] | None
    kl: KlEstimate
    kl_correction: bool
    entropy: Annotated[float, Field(ge=0, le=10)]
    max_grad_norm: Annotated[float, Field(gt=0)]

    @field_validator("sharded")
    @classmethod
    def _check_processes(cls, sharded: bool, others: ValidationInfo) -> bool:
        if sharded and others.data.get("processes") == 1:
            raise ValueError("sharded is true, but a single process has nothing to share: set processes to 2 or more")
        return sharded

    @field_validator("kl_target")
    @classmethod
    def _check_beta(cls, target: float | None, others: ValidationInfo) -> float | None:
        if target is not None and others.data.get("beta") == 0:
            raise ValueError(
                f"{target:g} does nothing where beta is 0, which no factor changes: set kl_target to null, or beta to "
                "0.01"
            )
        return target
