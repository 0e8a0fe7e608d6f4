"""One optimiser step taken apart: the step itself, and the parts of its gradient.

Loss, gradient, clipping and AdamW are the update's own functions (tasks/update/update.py); nothing of them is written
here again. A part by itself is the same gradient with the other parts turned off: the policy part with `beta` and
`entropy` 0, the KL with every advantage 0 and `entropy` 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tasks.errors import GraftError
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs
from tasks.params.update import Update
from tasks.update.gradient import TokenSums, accumulate_gradient
from tasks.update.metrics import Metrics, step_metrics
from tasks.update.step_plan import Step, UpdateGroup
from tasks.update.update import optimizer_step, start_training

Gradient = dict[str, Tensor]
"""Of each trained weight by its name, of the weight's shape."""


@dataclass(frozen=True)
class GradientNorms:
    """Norms of a gradient and of its parts by themselves."""

    whole: float
    policy: float
    kl: float


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
        still = GradientNorms(0.0, 0.0, 0.0)
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
    """With a constant learning rate and a constant beta."""
    return params.model_copy(update={"schedule": "constant", "warmup_steps": 0, "kl_target": None})


def gradient_norms(
    scorer: Scorer, groups: Sequence[UpdateGroup], behaviour: Logprobs, reference: Logprobs | None, params: Update
) -> tuple[GradientNorms, TokenSums]:
    """The gradient of the step's loss at the present weights, which do not change, and its token sums."""
    whole, sums = gradient_of(scorer, groups, behaviour, reference, params)
    no_kl = params.model_copy(update={"beta": 0.0, "entropy": 0.0})
    policy, _ = gradient_of(scorer, groups, behaviour, None, no_kl)
    kl: Gradient = {}
    if reference is not None:
        no_entropy = params.model_copy(update={"entropy": 0.0})
        kl, _ = gradient_of(scorer, without_advantages(groups), behaviour, reference, no_entropy)
    return GradientNorms(*map(gradient_norm, (whole, policy, kl))), sums


def gradient_of(
    scorer: Scorer, groups: Sequence[UpdateGroup], behaviour: Logprobs, reference: Logprobs | None, params: Update
) -> tuple[Gradient, TokenSums]:
    """What the update adds to `.grad` for a step of these groups, before it is clipped."""
    scorer.model.zero_grad()
    sums = accumulate_gradient(scorer, groups, behaviour, reference, params)
    trained = {name: weight for name, weight in scorer.model.named_parameters() if weight.requires_grad}
    gradient = {n: torch.zeros_like(w) if w.grad is None else w.grad.clone() for n, w in trained.items()}
    return gradient, sums


def without_advantages(groups: Sequence[UpdateGroup]) -> list[UpdateGroup]:
    """The same samples with advantage 0: of their loss the KL is left."""
    return [replace(g, samples=[replace(s, advantage=0.0) for s in g.samples]) for g in groups]


def gradient_norm(gradient: Mapping[str, Tensor]) -> float:
    """Its length, in float64."""
    return float(sum(float(part.double().square().sum()) for part in gradient.values()) ** 0.5)
