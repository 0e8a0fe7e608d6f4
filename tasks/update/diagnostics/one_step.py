"""One optimiser step taken apart: the step itself, and the parts of its gradient.

Loss, gradient, clipping and AdamW are the update's own functions (tasks/update/update.py); nothing of them is written
here again. A part by itself is the same gradient with the other parts turned off: the policy part with `beta` and
`entropy` 0, the KL with every advantage 0 and `entropy` 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from tasks.errors import GraftError
from tasks.model.scoring.scorer import Scorer
from tasks.objective.advantages import known_rewards
from tasks.objective.groups import SampleGroup
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs, sample_key
from tasks.params.sections import Update
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


def one_step(
    scorer: Scorer, groups: Sequence[UpdateGroup], params: Update, reference: Logprobs | None, steps: int
) -> OneStep:
    """Take the first of `steps` steps of an update, with these groups, in the scorer's model, and measure it.

    The learning rate is the one that warm-up and schedule give to that step: AdamW divides its first gradient by its
    own size, so that a first step at the full rate moves every weight further than any step of the update does.
    `reference`: log-probabilities of all samples by the reference, None where `update.beta` is 0. Raises GraftError
    where its loss or gradient is not finite.
    """
    step = Step(1, list(groups))
    if not step.samples:
        still = GradientNorms(0.0, 0.0, 0.0)
        return OneStep(None, None, still, still)
    behaviour = behaviour_logprobs(scorer, step.samples)
    training = start_training(scorer.model, params, steps)
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


def logprob_gain(groups: Sequence[SampleGroup], kept: Sequence[bool], before: Logprobs, after: Logprobs) -> float:
    """The change of log p of a completion that the step learns from, its sign by the reward alone.

        Σ_i c_i (log p_i after - log p_i before) / Σ_i |c_i|        c_i = |learnt advantage_i| · sign(r_i - mean r)

    over the completions of all groups that are `kept` [n]. A step that climbs Σ c_i log p_i makes it positive; the
    sign of the advantages is not read, so that a wrong one shows. 0 where no completion is learned from.
    """
    gained = weight = 0.0
    left = iter(kept)
    for group in groups:
        known = known_rewards(group.baseline_rewards)
        for sample, reward in zip(group.samples, group.baseline_rewards, strict=True):
            if next(left) and reward is not None and len(known) > 1:
                size, key = abs(sample.advantage), sample_key(sample)
                change = float((after[key].double() - before[key].double()).sum())
                gained += math.copysign(size, reward - fmean(known)) * change
                weight += size
    return gained / weight if weight else 0.0


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
    """The length of a gradient over all weights, in float64."""
    return float(sum(float(part.double().square().sum()) for part in gradient.values()) ** 0.5)
