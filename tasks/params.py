"""`params.yaml`, typed and validated. Nothing has a default here: the file is the only place of every value."""

import difflib
import re
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tasks.artifacts import read_text, write_text
from tasks.errors import GraftError
from tasks.plain_yaml import load_yaml
from tasks.redaction import redacted

Count = Annotated[int, Field(ge=1, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=100)]
LearningRate = Annotated[float, Field(gt=0, le=0.1)]
Price = Annotated[float, Field(ge=0)]
Temperature = Annotated[float, Field(gt=0, le=2)]
Loss = Literal["dapo", "bnpo", "grpo", "dr_grpo", "cispo", "sapo"]
Importance = Literal["token", "sequence"]
Baseline = Literal["group", "batch", "none", "leave_one_out"]
KlEstimate = Literal["k1", "k2", "k3"]
Truncated = Literal["learn", "leave_out"]
Unfit = Literal["stop", "skip"]
Schedule = Literal["linear", "cosine", "inverse_sqrt", "constant_with_warmup", "constant"]


ValidationLoss = Literal["seqloss_lastadv", "seqloss_reward", "contrastive", "good_only", "policy_gradient"]
Selection = Literal["positive", "reweight", "drop_worst_negative", "top_fraction", "bottom_fraction", "random", "none"]
Similarity = Literal["dot", "cosine", "centred", "local"]


class Section(BaseModel):
    """Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _of_plain_signs(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, str) and not value.isprintable():  # a NUL or a new line, which no path can hold
                sign = next(sign for sign in value if not sign.isprintable())
                raise ValueError(f"{name} holds the sign {sign!r}; write it without")
        return values


class Rounds(Section):
    """`start` maps each round to the round whose policy it starts from, so that `dvc.yaml` can chain them."""

    last: Count
    start: dict[int, int]

    @field_validator("start", mode="before")
    @classmethod
    def _quoted(cls, start: Any) -> Any:
        if isinstance(start, Mapping) and any(isinstance(key, int) for key in start):
            raise ValueError('the rounds must stand in quotes, {"1": 0}: DVC overlooks a number as a key')
        return start

    @model_validator(mode="after")
    def _chain(self) -> "Rounds":
        if self.start != {number: number - 1 for number in range(1, self.last + 1)}:
            raise ValueError(f'start must be the chain {{"1": 0, … "{self.last}": {self.last - 1}}} of `last` rounds')
        return self


class Problems(Section):
    source: Literal["generated", "jsonl"]
    path: str
    train: Count
    validation: Count
    test: Count
    dev: Annotated[int, Field(ge=0, strict=True)]
    phrasings: Annotated[int, Field(ge=1, le=3)]
    siblings: Annotated[int, Field(ge=0, le=16)]
    unseen: Share


class Lora(Section):
    rank: Annotated[int, Field(ge=1, le=256)]
    alpha: Annotated[float, Field(gt=0, le=1024)]
    targets: Literal["all-linear"] | list[str]

    @field_validator("targets", mode="before")
    @classmethod
    def _names(cls, targets: Any) -> Any:
        named = isinstance(targets, list) and targets and all(isinstance(name, str) and name for name in targets)
        if targets != "all-linear" and not named:
            raise ValueError(f"write all-linear, or a list of names, [q_proj, v_proj] for instance, not {targets!r}")
        return targets


class Policy(Section):
    base: Annotated[str, Field(min_length=1)]
    base_sha256: str | None
    max_new_tokens: Annotated[int, Field(ge=8, le=4096)]
    lora: Lora | None


class Coldstart(Section):
    operations: Annotated[int, Field(ge=1, le=5)]
    passes: Annotated[int, Field(ge=0, le=5)]


class Bootstrap(Section):
    hidden: Annotated[int, Field(ge=32, le=1024, multiple_of=32)]
    layers: Annotated[int, Field(ge=1, le=24)]
    vocabulary: Annotated[int, Field(ge=300, le=8192)]
    epochs: Annotated[int, Field(ge=1, le=1000)]
    learning_rate: LearningRate
    batch: Count
    spoilt: Share


class Search(Section):
    samples: Annotated[int, Field(ge=1, le=256)]
    simulations: Count
    revisions: Annotated[int, Field(ge=0, strict=True)]
    wave: Annotated[int, Field(ge=1, le=64)]
    rule: Literal["puct", "uct", "aflow", "random", "enumerate"]
    exploration: Annotated[float, Field(ge=0, le=100)]
    temperature: Temperature
    seconds: Annotated[float, Field(gt=0)] | None
    stop_at: Annotated[int, Field(ge=0, strict=True)]

    @model_validator(mode="after")
    def _first_wave_fits(self) -> "Search":
        if self.simulations < self.samples:
            raise ValueError(f"simulations ({self.simulations}) must be at least samples ({self.samples})")
        if self.revisions > self.simulations - self.samples:
            raise ValueError(
                f"revisions ({self.revisions}) must be at most simulations − samples "
                f"({self.simulations - self.samples}): they are completions too"
            )
        return self


class Sandbox(Section):
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
    seconds: Annotated[float, Field(gt=0, le=3600)]
    retries: Annotated[int, Field(ge=0, le=20)]
    parallel: Annotated[int, Field(ge=1, le=256)]
    price: tuple[Price, Price] | None

    @field_validator("base_url")
    @classmethod
    def _holds_no_secret(cls, url: str | None) -> str | None:
        if url is not None and redacted(url) != url:
            raise ValueError("holds a password or a key, and dvc.lock would keep it: export OPENAI_API_KEY instead")
        return url

    @model_validator(mode="after")
    def _model_named(self) -> "Operators":
        if self.backend == "openai" and not self.model:
            raise ValueError("backend openai needs a model: set operators.model to its name on the server")
        return self


class OwnTerm(Section):
    """A term of the reward that is the user's own function."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    term: str
    weight: Weight

    @field_validator("term")
    @classmethod
    def _module_and_function(cls, term: str) -> str:
        module, separator, function = term.partition(":")
        if not separator or not all(part.isidentifier() for part in [*module.split("."), function]):
            raise ValueError(f"write module:function, manners:polite for instance, not {term!r}")
        return term

    @property
    def module(self) -> str:
        return self.term.partition(":")[0]


class ModelReward(Section):
    """A term of the reward that is a sequence-classification model."""

    base: Annotated[str, Field(min_length=1)]
    weight: Weight
    batch: Annotated[int, Field(ge=1, le=4096, strict=True)]
    label: Annotated[int, Field(ge=0, strict=True)] | str | None


class Rewards(Section):
    correctness: Weight
    runs: Weight
    length: Weight
    environment: dict[str, Weight]
    strict: bool
    own: list[OwnTerm]
    own_sha256: str | None
    seconds: Annotated[float, Field(ge=0.1, le=3600)]
    model: ModelReward | None
    model_sha256: str | None
    agreement: bool
    failed_limit: Share

    @field_validator("own")
    @classmethod
    def _names_of_their_own(cls, own: list[OwnTerm]) -> list[OwnTerm]:
        names = [term.name for term in own]
        for place, name in enumerate(names):
            if name in cls.model_fields or name in names[:place]:
                whose = "a second term" if name in names[:place] else "Graft's own"
                raise ValueError(f"{name!r} is the name of {whose}; choose another")
        return own


class Influence(Section):
    validation: Literal["held_out", "same_batch", "trajectories"]
    n: Annotated[int, Field(ge=1, le=1024, strict=True)]
    completions: Annotated[int, Field(ge=1, le=256, strict=True)]
    trajectories: str | None
    trajectories_sha256: str | None
    top_k: Annotated[int, Field(ge=1, strict=True)] | None
    loss: ValidationLoss
    selection: Selection
    fraction: Annotated[float, Field(gt=0, le=1)]
    minimum_kept: Annotated[int, Field(ge=0, strict=True)]
    control: bool
    mix: bool
    exclude_self: bool
    leave_group_out: bool
    similarity: Similarity
    precondition: Literal["none", "adam"]
    memory_budget: Annotated[int, Field(ge=1, le=1_048_576, strict=True)]

    @model_validator(mode="after")
    def _names_its_trajectories(self) -> "Influence":
        if (self.validation == "trajectories") != (self.trajectories is not None):
            raise ValueError(
                f"validation is {self.validation} and trajectories is {self.trajectories or 'null'}: with validation "
                "trajectories it names a file of rewarded trajectories, else it is null"
            )
        return self


class Grpo(Section):
    group_size: Annotated[int, Field(ge=1, le=1024)]
    prompts_per_step: Count
    epochs: Annotated[int, Field(ge=1, le=64)]
    learning_rate: LearningRate
    schedule: Schedule
    warmup_steps: Annotated[int, Field(ge=0, le=10_000, strict=True)]
    bf16: bool
    micro_batch_tokens: Annotated[int, Field(ge=64, le=1_048_576, strict=True)]
    processes: Annotated[int, Field(ge=1, le=64, strict=True)]
    loss: Loss
    importance: Importance
    advantages: Baseline
    truncated: Truncated
    unfit: Unfit
    clip_low: Share
    clip_high: Annotated[float, Field(ge=0, le=10)]
    delta: Annotated[float, Field(gt=1, le=100)] | None
    negative_weight: Share
    beta: Annotated[float, Field(ge=0, le=10)]
    kl: KlEstimate
    kl_correction: bool
    entropy: Annotated[float, Field(ge=0, le=10)]
    max_grad_norm: Annotated[float, Field(gt=0)]

    @field_validator("warmup_steps")
    @classmethod
    def _some_warmup(cls, steps: int, others: ValidationInfo) -> int:
        if steps and others.data.get("schedule") == "constant":
            raise ValueError(
                f"warmup_steps ({steps}) does nothing in schedule constant: set it to 0, or schedule to "
                "constant_with_warmup"
            )
        return steps

    @field_validator("delta")
    @classmethod
    def _bounds_failures_alone(cls, delta: float | None, others: ValidationInfo) -> float | None:
        loss, clip_high = others.data.get("loss"), others.data.get("clip_high")
        if delta is not None and loss in ("cispo", "sapo"):
            raise ValueError(f"delta ({delta}) does nothing in loss {loss}: set it to null")
        if delta is not None and clip_high is not None and delta <= 1 + clip_high:
            raise ValueError(
                f"delta ({delta}) must be above 1 + clip_high ({1 + clip_high}), where it bounds failures and nothing "
                "else: raise it, or lower clip_high"
            )
        return delta


class Evaluation(Section):
    every: Annotated[int, Field(ge=0, strict=True)]
    samples: Count
    ks: Annotated[list[Count], Field(min_length=1)]
    temperature: Temperature
    resamples: Annotated[int, Field(ge=100, le=1_000_000)]
    confidence: Annotated[float, Field(ge=0.5, le=0.999)]

    @model_validator(mode="after")
    def _enough_samples(self) -> "Evaluation":
        most = max(self.ks)
        if self.samples < 2 * most:
            raise ValueError(
                f"samples ({self.samples}) must be at least twice the largest k ({most}), else pass@{most} rests on "
                f"hardly more than one draw: raise samples to {2 * most}, or take {most} out of ks"
            )
        return self


class Tracking(Section):
    uri: Annotated[str, PlainSerializer(redacted), Field(repr=False)]  # Prefect keeps what a flow was called with
    experiment: Annotated[str, Field(min_length=1)]
    seconds: Annotated[float, Field(ge=1, le=3600)]


class Scheduling(Section):
    """`seconds`: stage → the longest that it may take. The names are those of the stages, `flows/inputs.py` checks."""

    overlap: Literal["wait", "skip"]
    retries: Annotated[int, Field(ge=0, le=20, strict=True)]
    delay: Annotated[float, Field(ge=0, le=3600)]
    seconds: dict[str, Annotated[float, Field(gt=0)]]


class Runner(Section):
    """Who computes shards."""

    kind: Literal["here", "threads", "processes", "dask", "ray"]
    workers: Annotated[int, Field(ge=1, le=1024, strict=True)] | None
    address: Annotated[str, Field(min_length=1)] | None

    @model_validator(mode="after")
    def _address_of_a_cluster(self) -> "Runner":
        if self.address is not None and self.kind not in ("dask", "ray"):
            raise ValueError(
                f"address is {self.address}, but kind is {self.kind}: set kind to dask or ray, or address to null"
            )
        return self


class Params(Section):
    """All of `params.yaml`."""

    seed: Annotated[int, Field(ge=0, strict=True)]
    environment: str
    environment_sha256: str | None
    shard: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    rounds: Rounds
    problems: Problems
    policy: Policy
    coldstart: Coldstart
    bootstrap: Bootstrap
    search: Search
    sandbox: Sandbox
    operators: Operators
    rewards: Rewards
    influence: Influence
    grpo: Grpo
    evaluation: Evaluation
    tracking: Tracking
    schedule: Scheduling
    runner: Runner

    @field_validator("environment")
    @classmethod
    def _names_an_environment(cls, environment: str) -> str:
        if not re.fullmatch(r"workflow|answer|[A-Za-z_][\w.]*:[A-Za-z_]\w*", environment):
            raise ValueError(f"write workflow, answer, or module:CLASS for one of your own, not {environment!r}")
        return environment

    @field_validator("rewards")
    @classmethod
    def _something_counts(cls, rewards: Rewards, others: ValidationInfo) -> Rewards:
        own = rewards.environment if others.data.get("environment") != "workflow" else {}
        weights = [*own.values(), *(term.weight for term in rewards.own)]
        weights += [rewards.model.weight] if rewards.model else []
        if rewards.correctness + rewards.runs + rewards.length + sum(weights) == 0:
            raise ValueError("every weight is 0: give at least one term a weight, correctness: 1.0 for instance")
        return rewards

    @field_validator("operators")
    @classmethod
    def _programs_ask(cls, operators: Operators, others: ValidationInfo) -> Operators:
        environment = others.data.get("environment")
        if operators.backend != "none" and environment not in (None, "workflow"):
            raise ValueError(
                f"backend is {operators.backend}, but only workflows call operators and environment is {environment}: "
                "set operators.backend to none"
            )
        return operators

    @field_validator("influence")
    @classmethod
    def _influence_has_factors(cls, influence: Influence, others: ValidationInfo) -> Influence:
        policy = others.data.get("policy")
        if policy is not None and policy.lora is None and influence.selection not in ("none", "random"):
            raise ValueError(
                f"selection is {influence.selection}, but influence is measured over an adapter and policy.lora is "
                "null: set influence.selection to none, or policy.lora to {rank: 16, alpha: 32, targets: all-linear}"
            )
        return influence

    @field_validator("operators")
    @classmethod
    def _somebody_revises(cls, operators: Operators, others: ValidationInfo) -> Operators:
        search, policy = others.data.get("search"), others.data.get("policy")
        if search is None or policy is None or not search.revisions:
            return operators
        if operators.backend == "none":
            raise ValueError(
                f"search.revisions is {search.revisions}, but no model is there to write them: set operators.backend "
                "to openai or policy, or search.revisions to 0"
            )
        if operators.backend == "policy" and policy.base == "scratch":
            raise ValueError(
                f"search.revisions is {search.revisions}, but a policy made from scratch cannot read what it would be "
                "asked: set operators.backend to openai, policy.base to a model, or search.revisions to 0"
            )
        return operators

    @field_validator("evaluation")
    @classmethod
    def _rounds_have_problems(cls, evaluation: Evaluation, others: ValidationInfo) -> Evaluation:
        problems = others.data.get("problems")
        if problems is not None and evaluation.every and not problems.dev:
            raise ValueError(
                f"every is {evaluation.every}, but there are no problems to compare rounds on: set problems.dev to "
                "100, for instance, or evaluation.every to 0"
            )
        if problems is not None and problems.dev and not evaluation.every:
            raise ValueError(
                f"every is 0, so nothing is measured on the {problems.dev} problems of problems.dev: set "
                "evaluation.every to 1, or problems.dev to 0"
            )
        return evaluation


UNSEEN = {"tracking", "schedule", "runner"}
"""The sections that no stage may see: nothing is computed again for them, and no two runs differ by them."""


def rounds_of(count: int) -> dict[str, Any]:
    """The `rounds` section for `count` rounds in a row."""
    return {"last": count, "start": {str(number): number - 1 for number in range(1, count + 1)}}


def load_params(path: Path) -> Params:
    """Read and validate. Raises GraftError that names the file, the line, the param and the nearest real one."""
    return _validate(path, read_text(path))


def restrict(params: Params, keys: Iterable[str]) -> Params:
    """`params` with nothing but the dotted `keys`: reading any other param raises AttributeError.

    A stage gets only what `dvc.yaml` lists for it, so that no param can change a stage without making it stale.
    """
    restricted: Params = _restrict(params, sorted(keys))
    return restricted


def override(path: Path, assignments: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Write `key=value` assignments into the file, comments kept, as `dvc exp run -S` does.

    `rounds=N` stands for both lines of the section. Returns {key: (old, new)} of what changed.
    Raises GraftError, with the file untouched, where a key is unknown or a value is out of range.
    """
    text, _, changes = overridden(path, read_text(path), assignments)
    if changes:
        write_text(path, text)
    return changes


def overridden(path: Path, text: str, assignments: Iterable[str]) -> tuple[str, "Params", dict[str, tuple[Any, Any]]]:
    """`override` of a text that came from `path`: the new text, its params, and what changed. Writes nothing."""
    document = load_yaml(path, text, _yaml())
    changes: dict[str, tuple[Any, Any]] = {}
    for assignment in assignments:
        key, separator, given = assignment.partition("=")
        if not separator:
            raise GraftError(f"-S {assignment}: not of the form key=value; write for instance -S grpo.beta=0.05")
        value = _value_of(key, given) if given else ""
        old = _assign(path, document, key.strip(), value)
        if old != value:
            changes[key.strip()] = (old, value)
    stream = StringIO()
    _yaml().dump(document, stream)
    params = _validate(path, stream.getvalue())
    return stream.getvalue() if changes else text, params, changes


def _restrict(section: Any, keys: list[str]) -> Any:
    heads = sorted({key.partition(".")[0] for key in keys})  # in the same order in each process
    kept: dict[str, Any] = {}
    for head in heads:
        if head not in type(section).model_fields:
            raise GraftError(f"dvc.yaml: no param {head!r} in {type(section).__name__}; correct the stage's params")
        below = [key.partition(".")[2] for key in keys if key.partition(".")[0] == head]
        value = getattr(section, head)
        kept[head] = value if "" in below else _restrict(value, below)
    return type(section).model_construct(**kept)


def _value_of(key: str, text: str) -> Any:
    """What `text` means as a value in the file."""
    if "\n" in text or "\r" in text:
        raise GraftError(f"-S {key}: more than one line; write lists as [a, b] and mappings as {{a: 1}}")
    return _plain(load_yaml(f"-S {key}", f"value: {text}", _yaml())["value"])


def _yaml() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """A class of its own: representers are kept by class, and DVC writes `dvc.lock` with the one above."""

    Representer.add_representer(type(None), lambda r, _: r.represent_scalar("tag:yaml.org,2002:null", "null"))
    yaml = YAML()
    yaml.Representer = Representer
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _assign(path: Path, document: Any, key: str, value: Any) -> Any:
    """Set a dotted key and return the old value."""
    if key == "rounds" and isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        old = document["rounds"]["last"]
        _replace(document["rounds"], rounds_of(value))
        return old
    *folders, leaf = key.split(".")
    place = document
    for depth, part in enumerate([*folders, leaf]):
        if not isinstance(place, dict) or part not in place:
            raise GraftError(f"{path}: no param {key!r}{_nearest(key, document)}")
        if depth < len(folders):
            place = place[part]
    old, place[leaf] = _plain(place[leaf]), _in_one_line(value)
    return old


def _in_one_line(value: Any) -> Any:
    """Lists and mappings as `[a, b]` and `{a: b}`: over several lines they would tear the comments around them."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if isinstance(value, dict):
        container: Any = CommentedMap({key: _in_one_line(below) for key, below in value.items()})
    elif isinstance(value, list):
        container = CommentedSeq(_in_one_line(below) for below in value)
    else:
        return value
    container.fa.set_flow_style()
    return container


def _replace(node: Any, values: Mapping[str, Any]) -> None:
    """Put `values` into a mapping of the file in place, so that it keeps its style and comments."""
    for key in [key for key in node if key not in values]:
        del node[key]
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(node.get(key), dict):
            _replace(node[key], value)
        else:
            node[key] = value


def _validate(path: Path, text: str) -> Params:
    document = load_yaml(path, text)
    try:
        return Params.model_validate(document)
    except ValidationError as error:
        errors = error.errors(include_url=False)  # a misspelt key is missing too: tell the misspelling
        first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
        loc = [part for part in first["loc"] if part != "[key]"]
        key = ".".join(str(part) for part in loc)
        where = f"{path}:{_line_of(text, loc)}"
        if first["type"] == "extra_forbidden":
            raise GraftError(f"{where}: no param {key!r}{_nearest(key, Params)}") from None
        if first["type"] == "missing":
            raise GraftError(f"{where}: {key} is missing; add it, git show HEAD:params.yaml has it") from None
        message = re.sub(r"^(Value error|Assertion failed), ", "", first["msg"])
        given = "" if first["type"] == "value_error" else f", not {first['input']!r}"
        raise GraftError(f"{where}: {key}: {message}{given}") from None


def _plain(node: Any) -> Any:
    """ruamel's containers as dict and list; its floats, which lose a last digit when they are written, as float."""
    if isinstance(node, float):
        return float(node)
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return node


def _line_of(text: str, loc: list[int | str]) -> int:
    """1-based line of the deepest part of `loc` that the file has."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode

    line, node = 1, YAML(typ="safe").compose(text)
    for part in loc:
        pairs = node.value if isinstance(node, MappingNode) else []
        key, node = next(((key, value) for key, value in pairs if key.value == str(part)), (None, None))
        if key is None:
            break
        line = key.start_mark.line + 1
    return line


def _keys(fields: Any, prefix: str = "") -> list[str]:
    """All dotted keys of a section class or of a parsed file."""
    if isinstance(fields, Mapping):
        pairs = list(fields.items())
    elif isinstance(fields, type) and issubclass(fields, Section):
        pairs = [(name, _plainly(field.annotation)) for name, field in fields.model_fields.items()]
    else:
        return []
    return [k for name, below in pairs for k in (f"{prefix}{name}", *_keys(below, f"{prefix}{name}."))]


def _plainly(annotation: Any) -> Any:
    """The section of `Section | None`; anything else as it is."""
    return next(
        (each for each in get_args(annotation) if isinstance(each, type) and issubclass(each, Section)), annotation
    )


def _nearest(key: str, known: Any) -> str:
    """`; did you mean …?`, by the whole dotted name first, then by its last part."""
    keys = _keys(known)
    close = difflib.get_close_matches(key, keys, n=1, cutoff=0.6)
    if not close:
        leaves = difflib.get_close_matches(leaf_of(key), [leaf_of(k) for k in keys], n=1)
        close = [k for k in keys if leaf_of(k) in leaves]
    sections = ", ".join(k for k in keys if "." not in k)
    return f"; did you mean {close[0]!r}?" if close else f"; the sections are {sections}"


def leaf_of(key: str) -> str:
    """The last part of a dotted key."""
    return key.rpartition(".")[2]
