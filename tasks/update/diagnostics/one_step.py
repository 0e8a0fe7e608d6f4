"""One optimiser step taken apart: the step itself, the parts of its gradient, and where in the model it is.

Loss, gradient, clipping and AdamW are the update's own functions (tasks/update/update.py); nothing of them is written
here again. A part by itself is the same gradient with the other parts turned off: the policy part with `beta` and
`entropy` 0, the KL with every advantage 0 and `entropy` 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from tasks.errors import GraftError
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs
from tasks.params.update import Update
from tasks.update.gradient import TokenSums, accumulate_gradient
from tasks.update.metrics import Metrics, step_metrics
from tasks.update.step_plan import Step, UpdateGroup
from tasks.update.update import optimizer_step, start_training

if TYPE_CHECKING:
    from torch import Tensor

Gradient = dict[str, "Tensor"]
"""Of each trained weight by its name, of the weight's shape."""

Part = Literal["whole", "policy", "kl"]
PARTS: tuple[Part, ...] = get_args(Part)


class StepPart(NamedTuple):
    """What a part of a step's gradient is computed of."""

    groups: Sequence[UpdateGroup]
    reference: Logprobs | None
    params: Update


@dataclass(frozen=True)
class GradientNorms:
    """Norms of a gradient and of its parts by themselves; `layers`: of the whole, by layer."""

    whole: float
    policy: float
    kl: float
    layers: dict[str, float]


@dataclass(frozen=True)
class OneStep:
    """`row`: the numbers that an update logs of a step, None where nothing has an advantage and no step is taken.

    `row_after`: the same numbers at the weights after it, of the same samples; `before` and `after`: the gradients.
    Those after it are None where it has left nothing that is finite.
    """

    row: Metrics | None
    row_after: Metrics | None
    before: GradientNorms
    after: GradientNorms | None

    @property
    def diverged(self) -> bool:
        return self.after is None


def one_step(scorer: Scorer, groups: Sequence[UpdateGroup], params: Update, reference: Logprobs | None) -> OneStep:
    """Take one step of these groups, in the scorer's model, and measure it.

    At `update.learning_rate` and `update.beta`: schedule and warm-up, which make an update's first step a small
    one, are left out. `reference`: log-probabilities of all samples by the reference, None where `update.beta` is 0.
    Raises GraftError where its loss or gradient is not finite.
    """
    step = Step(1, list(groups))
    if not step.samples:
        still = GradientNorms(0.0, 0.0, 0.0, dict.fromkeys(layers_of(scorer), 0.0))
        return OneStep(None, None, still, still)
    params, behaviour = constant_rates(params), behaviour_logprobs(scorer, step.samples)
    training = start_training(scorer.model, params, 1)
    try:
        before = gradient_norms(scorer, groups, behaviour, reference, params)[0]
        optimizer_step(training, scorer, step, behaviour, reference, params)
    except FloatingPointError as error:
        raise GraftError(f"the step: {error}; lower update.beta, or search again") from error
    (row,) = training.rows
    try:
        after, sums = gradient_norms(scorer, groups, behaviour, reference, params)
    except FloatingPointError:
        return OneStep(row, None, before, None)
    finally:
        scorer.model.zero_grad()
    return OneStep(row, step_metrics(2, step, sums, after.whole, row["learning_rate"]), before, after)


def constant_rates(params: Update) -> Update:
    """With a constant learning rate."""
    return params.model_copy(update={"schedule": "constant", "warmup_steps": 0})


def gradient_norms(
    scorer: Scorer, groups: Sequence[UpdateGroup], behaviour: Logprobs, reference: Logprobs | None, params: Update
) -> tuple[GradientNorms, TokenSums]:
    """The gradient of the step's loss at the present weights, which do not change, and its token sums."""
    whole, sums = gradient_of(scorer, groups, behaviour, reference, params)

    def norm(part: Part) -> float:
        taken = part_of(part, groups, reference, params)
        return gradient_norm(gradient_of(scorer, taken.groups, behaviour, taken.reference, taken.params)[0])

    kl = 0.0 if reference is None else norm("kl")
    return GradientNorms(gradient_norm(whole), norm("policy"), kl, norms_by_layer(whole)), sums


def part_of(part: Part, groups: Sequence[UpdateGroup], reference: Logprobs | None, params: Update) -> StepPart:
    """A step of which the part is the whole gradient."""
    if part == "policy":
        return StepPart(groups, None, params.model_copy(update={"beta": 0.0, "entropy": 0.0}))
    if part == "kl":
        return StepPart(without_advantages(groups), reference, params.model_copy(update={"entropy": 0.0}))
    return StepPart(groups, reference, params)


def gradient_of(
    scorer: Scorer, groups: Sequence[UpdateGroup], behaviour: Logprobs, reference: Logprobs | None, params: Update
) -> tuple[Gradient, TokenSums]:
    """What the update adds to `.grad` for a step of these groups, before it is clipped."""
    import torch

    scorer.model.zero_grad()
    sums = accumulate_gradient(scorer, groups, behaviour, reference, params)
    trained = {name: weight for name, weight in scorer.model.named_parameters() if weight.requires_grad}
    gradient = {n: torch.zeros_like(w) if w.grad is None else w.grad.clone() for n, w in trained.items()}
    return gradient, sums


def without_advantages(groups: Sequence[UpdateGroup]) -> list[UpdateGroup]:
    """The same samples with advantage 0: of their loss the KL is left."""
    return [replace(g, samples=[replace(s, advantage=0.0) for s in g.samples]) for g in groups]


def gradient_norm(gradient: "Mapping[str, Tensor]") -> float:
    """Its length, in float64."""
    return float(sum(float(part.double().square().sum()) for part in gradient.values()) ** 0.5)


def norms_by_layer(gradient: "Mapping[str, Tensor]") -> dict[str, float]:
    """Norm of each layer's part, in the model's order; the squares add up to that of the whole."""
    layers: dict[str, dict[str, Tensor]] = {}
    for name, part in gradient.items():
        layers.setdefault(layer_of(name), {})[name] = part
    return {layer: gradient_norm(parts) for layer, parts in layers.items()}


def layers_of(scorer: Scorer) -> list[str]:
    """The layers that have trained weights, in the model's order."""
    return list(dict.fromkeys(layer_of(n) for n, w in scorer.model.named_parameters() if w.requires_grad))


def layer_of(name: str) -> str:
    """`layers.3` for all weights of the fourth layer; what is in no numbered layer has its module's name."""
    parts = [part for part in name.split(".") if not part.startswith("lora_") and part != "default"]
    for place, part in enumerate(parts[1:], start=1):
        if part.isdigit():
            return f"{parts[place - 1]}.{part}"
    return parts[-2] if parts[-1] in ("weight", "bias") and len(parts) > 1 else parts[-1]
