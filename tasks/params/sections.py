"""The sections of `params.yaml` but `environment` and `machine`, each with the range of every field."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tasks.params.fields import (
    Baseline,
    Count,
    CountFrom0,
    Importance,
    KlEstimate,
    LearningRate,
    Loss,
    MicroBatchTokens,
    Price,
    Prompts,
    SamplerCorrection,
    Schedule,
    SelectionRule,
    Share,
    Similarity,
    Temperature,
    Truncated,
    ValidationLoss,
    ValidationSampling,
    ValidationSource,
    Weight,
    check_name,
)
from tasks.records.policy import Dtype, PromptStyle, Quantization
from tasks.records.problems import Split
from tasks.redaction import redacted


class Section(BaseModel):
    """Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_characters(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, str) and not value.isprintable():  # a NUL or a newline
                character = next(sign for sign in value if not sign.isprintable())
                raise ValueError(f"{name} contains the character {character!r}; remove it")
        return values


MOST_ROUNDS = 1000
"""DVC reads its lock, with some thirty lines of each round, before and after each stage."""


class Rounds(Section):
    """`start` maps each round to the round whose policy it starts from, for the chain in `dvc.yaml`."""

    last: Annotated[int, Field(ge=1, le=MOST_ROUNDS, strict=True)]
    start: dict[int, int]

    @field_validator("start", mode="before")
    @classmethod
    def _check_keys_are_text(cls, start: Any) -> Any:
        if isinstance(start, Mapping) and any(isinstance(key, int) for key in start):
            raise ValueError('the rounds must be in quotes, {"1": 0}: DVC ignores keys that are numbers')
        return start

    @model_validator(mode="after")
    def _check_chain(self) -> "Rounds":
        if self.start != {number: number - 1 for number in range(1, self.last + 1)}:
            raise ValueError(f'start must be the chain {{"1": 0, … "{self.last}": {self.last - 1}}} of `last` rounds')
        return self


BY_FORMAT = "format"
"""Value of `problems.evaluator`: the evaluator of the format of each file."""

EVALUATORS = (BY_FORMAT, "number", "text", "choice", "expression", "f1", "drop")
"""Values of `problems.evaluator` but for a user's class; tasks/evaluators/scores.py has them."""


class Problems(Section):
    source: Literal["environment", "jsonl"]
    path: str
    evaluator: str
    train: Count
    validation: Count
    test: Count
    dev: CountFrom0
    replay: Annotated[float, Field(ge=0, le=0.9)]
    confirm: CountFrom0
    siblings: Annotated[int, Field(ge=0, le=16)]
    exclude: Annotated[str, Field(min_length=1)] | None

    @field_validator("exclude")
    @classmethod
    def _check_exclude(cls, exclude: str | None, others: ValidationInfo) -> str | None:
        if exclude and others.data.get("source") != "jsonl":
            raise ValueError(f"{exclude!r} does nothing: an environment writes its own problems; set it to null")
        return exclude

    @field_validator("evaluator")
    @classmethod
    def _check_evaluator(cls, evaluator: str, others: ValidationInfo) -> str:
        check_name(evaluator, EVALUATORS, "module:CLASS")
        if evaluator not in (BY_FORMAT, "number") and others.data.get("source") != "jsonl":
            raise ValueError(f"{evaluator!r} does nothing: generated problems have their own; set it to format")
        return evaluator

    @property
    def splits(self) -> dict[Split, int]:
        """Sizes, test first and dev last: more train or dev problems do not change the test problems."""
        return {"test": self.test, "validation": self.validation, "train": self.train, "dev": self.dev}


class Lora(Section):
    rank: Annotated[int, Field(ge=1, le=256)]
    alpha: Annotated[float, Field(gt=0, le=1024)]
    targets: Literal["all-linear"] | list[str]

    @field_validator("targets", mode="before")
    @classmethod
    def _check_targets(cls, targets: Any) -> Any:
        named = isinstance(targets, list) and targets and all(isinstance(name, str) and name for name in targets)
        if targets != "all-linear" and not named:
            raise ValueError(f"write all-linear, or a list of names, [q_proj, v_proj] for instance, not {targets!r}")
        return targets


class PromptParams(Section):
    """The prompt of a base; a policy from scratch and an earlier policy have their own."""

    style: PromptStyle | Literal["auto"]
    examples: Annotated[int, Field(ge=0, le=32, strict=True)]
    file: Annotated[str, Field(min_length=1)] | None
    prefill: str | None
    stop: Annotated[list[Annotated[str, Field(min_length=1, max_length=32)]], Field(max_length=100)]

    @field_validator("examples")
    @classmethod
    def _check_examples(cls, examples: int, others: ValidationInfo) -> int:
        if examples and others.data.get("style") == "raw":
            raise ValueError(f"{examples} worked examples, but style raw shows none: set examples to 0")
        return examples


class PolicyParams(Section):
    base: Annotated[str, Field(min_length=1)]
    max_new_tokens: Annotated[int, Field(ge=8, le=4096)]
    prompt: PromptParams
    lora: Lora | None
    dtype: Literal["auto"] | Dtype
    quantize: Quantization | None

    @model_validator(mode="after")
    def _check_frozen_base(self) -> "PolicyParams":
        if self.lora is not None and self.base != "scratch":
            return self
        reason = "a model from scratch is trained whole first" if self.lora else "lora is null"
        if self.dtype == "bfloat16":
            raise ValueError(
                f"dtype (bfloat16) is for the frozen base of an adapter, but {reason}, and weights that are trained "
                "are float32: set dtype to auto; update.bf16 computes an update's products in bfloat16"
            )
        if self.quantize:
            raise ValueError(
                f"quantize ({self.quantize}) is for the frozen base of an adapter, but {reason}: set quantize to null"
            )
        return self


class Bootstrap(Section):
    hidden: Annotated[int, Field(ge=32, le=1024, multiple_of=32)]
    layers: Annotated[int, Field(ge=1, le=24)]
    vocabulary: Annotated[int, Field(ge=300, le=8192)]
    epochs: Annotated[int, Field(ge=0, le=1000, strict=True)] | Literal["auto"]
    learning_rate: LearningRate
    demonstrations: Annotated[str, Field(min_length=1)] | None


RULES = ("puct", "uct", "random")
"""Values of `search.rule` but for a user's class; tasks/search/rules.py has them."""


class Search(Section):
    samples: Annotated[int, Field(ge=1, le=256)]
    simulations: Annotated[int, Field(ge=1, le=65_536, strict=True)]
    rule: str
    exploration: Annotated[float, Field(ge=0, le=100)]
    problems: Count | None
    order: Literal["all", "easiest_first"]
    temperature: Temperature
    top_p: Annotated[float, Field(gt=0, le=1)]
    top_k: CountFrom0

    @field_validator("rule")
    @classmethod
    def _check_rule(cls, rule: str) -> str:
        return check_name(rule, RULES, "module:CLASS")

    @model_validator(mode="after")
    def _check_simulations(self) -> "Search":
        if self.simulations < self.samples:
            raise ValueError(f"simulations ({self.simulations}) must be at least samples ({self.samples})")
        return self


class SandboxParams(Section):
    seconds: Annotated[float, Field(ge=0.1, le=60)]
    memory_mb: Annotated[int, Field(ge=64, le=8192)]
    allow_weak: bool


class Operators(Section):
    backend: Literal["none", "policy", "openai"]
    base_url: Annotated[str, Field(pattern=r"^https?://")] | None
    model: str
    calls: Annotated[int, Field(ge=1, le=64)]
    max_tokens: Annotated[int, Field(ge=1, le=32768)]
    temperature: Annotated[float, Field(ge=0, le=2)]
    price: tuple[Price, Price] | None

    @field_validator("base_url")
    @classmethod
    def _check_no_secret(cls, url: str | None) -> str | None:
        if url is not None and redacted(url) != url:
            raise ValueError("contains a password or a key, which dvc.lock would store: export OPENAI_API_KEY instead")
        return url

    @model_validator(mode="after")
    def _check_model(self) -> "Operators":
        if self.backend == "openai" and not self.model:
            raise ValueError("backend openai needs a model: set operators.model to its name on the server")
        return self


class UserTerm(Section):
    """A reward term that is a user's function."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    term: str
    weight: Weight

    @field_validator("term")
    @classmethod
    def _check_module_and_function(cls, term: str) -> str:
        module, separator, function = term.partition(":")
        if not separator or not all(part.isidentifier() for part in [*module.split("."), function]):
            raise ValueError(f"write module:function, manners:polite for instance, not {term!r}")
        return term


class Rewards(Section):
    correctness: Weight
    runs: Weight
    efficiency: Weight
    own: Annotated[list[UserTerm], Field(max_length=100)]

    @field_validator("own")
    @classmethod
    def _check_names(cls, own: list[UserTerm]) -> list[UserTerm]:
        names = [term.name for term in own]
        for place, name in enumerate(names):
            if name in cls.model_fields or name in names[:place]:
                whose = "a second term" if name in names[:place] else "Graft's own"
                raise ValueError(f"{name!r} is the name of {whose}; choose another")
        return own


class Influence(Section):
    selection: SelectionRule
    share: Annotated[float, Field(gt=0, le=1)]
    fdr_control: bool
    validation: ValidationSource
    own_vote: bool
    n: Annotated[int, Field(ge=1, le=1024, strict=True)]
    completions: Annotated[int, Field(ge=1, le=256, strict=True)]
    sampling: ValidationSampling
    k: Annotated[int, Field(ge=1, le=65_536, strict=True)]
    loss: ValidationLoss
    train_on_validation: bool
    similarity: Similarity
    prompts: Prompts
    memory_budget: Annotated[int, Field(ge=1, le=1_048_576, strict=True)]

    @model_validator(mode="after")
    def _check_validation(self) -> "Influence":
        if self.validation == "same_batch" and self.selection == "audit":
            raise ValueError(
                "validation same_batch is for TracIn alone, an audit compares with held-out completions: set selection "
                "to positive, top or bottom, or validation to held_out"
            )
        return self

    @property
    def is_measured(self) -> bool:
        """Whether the selection is by the influence of every sample."""
        return self.selection not in ("audit", "random", "none")

    @property
    def is_held_out(self) -> bool:
        """Whether validation problems are sampled."""
        return self.selection == "audit" or (self.is_measured and self.validation == "held_out")


class Evaluation(Section):
    every: Annotated[int, Field(ge=0, le=MOST_ROUNDS, strict=True)]
    samples: Annotated[int, Field(ge=1, le=65_536, strict=True)]
    ks: Annotated[list[Count], Field(min_length=1, max_length=100)]
    temperature: Temperature
    budget: Annotated[int, Field(ge=0, le=65_536, strict=True)]

    @model_validator(mode="after")
    def _check_samples(self) -> "Evaluation":
        most = max(self.ks)
        if self.samples < 2 * most:
            raise ValueError(
                f"samples ({self.samples}) must be at least twice the largest k ({most}), else pass@{most} rests on "
                f"hardly more than one draw: raise samples to {2 * most}, or take {most} out of ks"
            )
        return self


class PromotionParams(Section):
    approve: Literal["auto", "person"]
    keep: Annotated[int, Field(ge=0, le=100, strict=True)]
    margin: Annotated[float, Field(gt=0, le=1)]
    measure: Literal["greedy", "sampled"]


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


class Ppo(Section):
    gamma: Share
    lam: Share
    clip: Share
    value_weight: Annotated[float, Field(ge=0, le=100)]
    value_rate: LearningRate
