"""Certificate of influence: the change of the validation loss that it predicts, against the change that happens.

Influence is a derivative. With weights w_i of 1 and -1, a step of the adapter along d = -Σ w_i ∇L_i, of length ε, over
a random draw of samples, changes the validation loss by

    -ε Σ w_i influence_i / ‖Σ w_i ∇L_i‖ + O(ε²)

The first step's weights are the signs of the influences: it lowers the loss if selection by sign does. The second's are
random: in the sum of the first the errors of an approximation may cancel, and here they do not. Each step is taken in
both directions (which leaves O(ε³)), and the loss computed again. Nothing here is influence's: the
gradient is the one that the update accumulates (tasks/update/gradient.py), with its scorer, layout, losses and means,
of the samples with weight 1 less that of those with -1; the loss is that scorer's. So a wrong sign, a
wrong mask, another temperature, another loss or mean of the update, constant prompts, an objective for a loss and
another policy's gradient all show. The terms that influence leaves out, the KL and the entropy bonus, are left out
here, too. Several processes take the same steps, each on its own copy of the policy, and compute a part of gradient and
loss.

Where weights have 16 bits, rounding changes the loss by more than a step may (SmolLM2-135M in bfloat16, 1,938 tokens:
by 9e-4, a step of 1e-3 of the adapter's norm by 4e-4, and steps above 1e-2 are not small: they leave over 1 %). So the
losses after the steps are those of the same weights in float32, and the gradient of the step is the update's.
"""

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tasks.errors import GraftError
from tasks.model.distributed.collectives import all_gather, local_steps, world_size
from tasks.model.hf_model import float32_weights, has_narrow_weights
from tasks.model.layers.fast_layers import fast_layers
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.params.sections import Ppo, Update
from tasks.select.losses import GradientRow, Validation, loss_denominator, row_of
from tasks.update.gradient import accumulate_gradient
from tasks.update.step_plan import UpdateGroup

CERTIFICATE_STEPS = 2
"""Steps, each in both directions: each costs two forward passes over the validation samples."""

TRIES = 64
"""Draws of random weights at most; one of three is taken."""

MAX_ROWS = 48
"""Samples of a step, at most."""

STEP_LENGTHS = (1e-4, 1e-3)
"""Lengths of a step as shares of the adapter's norm: the first that changes the loss clearly is taken."""

ROUNDING = 10
"""Rounding error of a token's log-probability, in units of the weights' precision."""

MIN_SIGNAL = 30
"""A change of the loss counts if it is at least this multiple of its rounding error."""

SLOPE_TOLERANCE, NARROW_TOLERANCE = 0.01, 0.05
"""Tolerance of the slope, to which its rounding error is added; the second where the gradient is computed in 16 bits.
Right influences of the default are off by 5e-4 at most, in 16 bits by less than 0.02; constant prompts, which are an
approximation, by 0.03 in the round where they are nearest."""


@dataclass(frozen=True)
class Certificate:
    """The measured effect of the steps against the predicted one."""

    slope: float  # measured / predicted change of the loss, of the step where it is furthest from -1, which is right
    sign_agreement: float  # share of the steps that changed the loss in the predicted direction
    steps: int
    draws: int  # of samples, each for a step; 0 where all influences are 0
    loss: float  # validation loss; weighted by advantages, neither its value nor its sign has a meaning
    tolerance: float = SLOPE_TOLERANCE  # of the slope, rounding included

    @property
    def metrics(self) -> dict[str, float]:
        """What the stage `select` reports of it."""
        if not self.steps:
            return {"certificate_steps": 0}
        return {
            "certificate_steps": self.steps,
            "certificate_slope": self.slope,
            "certificate_signs": self.sign_agreement,
            "validation_loss": self.loss,
        }

    def check(self) -> None:
        """Raise GraftError where influence does not predict the measured change, or no change could be measured."""
        if self.draws and not self.steps:
            raise GraftError(
                "influence: no small step changes the validation loss by more than its rounding error, so influence "
                "cannot be trusted to select; give it more validation samples (influence.n, problems.validation), or "
                "set influence.selection to none"
            )
        if self.steps and not (abs(self.slope + 1) <= self.tolerance and self.sign_agreement == 1):
            raise GraftError(
                f"influence: small steps change the validation loss by {-self.slope:.2f} of what influence predicts "
                f"(1 is right; {self.sign_agreement:.0%} of {self.steps} steps have the right sign), so it cannot be "
                "trusted to select; set influence.selection to none, and report this"
            )


def certify(
    scorer: Scorer,
    samples: Sequence[Sample],
    influences: Sequence[float],
    validation: Validation,
    update: Update,
    longest: int,
    seed: int,
    ppo: Ppo | None = None,
) -> Certificate:
    """Take small steps and undo them. `influences` [n] are ⟨∇L_i, ∇L_val⟩ of all samples of the round, 0 of those that
    are not to be drawn.

    `scorer`: of the update, from `update_scorer`, with algorithm ppo, whose params are `ppo`, with a value head.
    `longest`: of completions. Steps whose effect is within rounding error are left out; where all influences are 0
    there are no draws.
    """
    steps = draw(samples, influences, seed)
    denominator = loss_denominator(samples, TokenWeights(update.loss, longest))
    exact = replace(scorer, bf16=False)  # a small change of the loss drowns in the rounding of 16 bits
    in_16_bits = scorer.bf16 or has_narrow_weights(scorer.model)
    taken, losses, noise = list[tuple[float, float]](), list[float](), _noise(exact, validation)
    for number, drawn in enumerate(steps):
        weights = [math.copysign(1.0, influence) for _, influence in drawn]
        if number and not in_16_bits:  # whose rounding would be too large a part of a smaller sum
            weights = random_weights([influence for _, influence in drawn], seed)
        gradient = _gradient(scorer, [s for s, _ in drawn], weights, denominator, update, ppo)
        size = sum(float(g.double().square().sum()) for g in gradient.values()) ** 0.5
        norm = sum(float(w.detach().double().square().sum()) for w in gradient) ** 0.5
        total = sum(w * influence for w, (_, influence) in zip(weights, drawn, strict=True))
        rate = total / max(size, 1e-300)  # the loss falls by this for each unit of length, if influence is right
        step = next((length * norm for length in STEP_LENGTHS if length * norm * rate > MIN_SIGNAL * noise), None)
        if step is None or not size:
            continue
        values = []
        # Forward and back: of half the difference the second-order term, the loss's curvature, cancels.
        for direction in (1, -1):
            with _shifted(gradient, -direction * step / size):
                values.append(validation_loss(exact, validation))
        losses += values
        taken.append(((values[0] - values[1]) / 2 / (step * rate), noise / (step * rate)))
    if not taken:
        return Certificate(slope=math.nan, sign_agreement=0.0, steps=0, draws=len(steps), loss=math.nan)
    slope, rounding = max(taken, key=lambda step: abs(step[0] + 1) - step[1])
    tolerance = (NARROW_TOLERANCE if in_16_bits else SLOPE_TOLERANCE) + rounding
    signs, loss = sum(slope < 0 for slope, _ in taken) / len(taken), sum(losses) / len(losses)
    return Certificate(slope, signs, len(taken), len(steps), loss, tolerance)


def draw(samples: Sequence[Sample], influences: Sequence[float], seed: int) -> list[list[tuple[Sample, float]]]:
    """The distinct samples of each step, with their influence; none has influence 0."""
    rows = list({s.completion + s.prompt: (s, i) for s, i in zip(samples, influences, strict=True) if i}.values())
    random.Random(seed).shuffle(rows)
    most, starts = MAX_ROWS * CERTIFICATE_STEPS, range(min(CERTIFICATE_STEPS, len(rows)))
    return [rows[start:most:CERTIFICATE_STEPS] for start in starts]


def random_weights(influences: Sequence[float], seed: int) -> list[float]:
    """Weights of 1 and -1, with Σ w_i influence_i at least as large as is usual of random ones, √Σ influence_i²."""
    rng, usual = random.Random(seed), math.hypot(*influences)
    for _ in range(TRIES):
        weights = [rng.choice((1.0, -1.0)) for _ in influences]
        total = sum(w * influence for w, influence in zip(weights, influences, strict=True))
        if abs(total) >= usual:
            return [w if total > 0 else -w for w in weights]
    return [math.copysign(1.0, influence) for influence in influences]


def without_penalties(update: Update) -> Update:
    """The params without the KL and the entropy bonus, which influence leaves out and the stage `select` cannot see."""
    return update.model_copy(update={"beta": 0.0, "kl": "k3", "kl_correction": False, "entropy": 0.0})


def _gradient(
    scorer: Scorer,
    samples: Sequence[Sample],
    weights: Sequence[float],
    denominator: int,
    update: Update,
    ppo: Ppo | None,
) -> dict[Tensor, Tensor]:
    """∇ Σ_i w_i L_i by the trained parameters: the update's gradient of those with w 1 less that of the others.

    Two calls of the update's own function, which has no weights, so that nothing of it is written here again.
    """
    trained = [parameter for parameter in scorer.model.parameters() if parameter.requires_grad]
    parts = []
    for sign in (1.0, -1.0):
        _clear_gradients(trained)  # of an earlier update of this model
        chosen = [s for s, w in zip(samples, weights, strict=True) if w == sign]
        step = [UpdateGroup("certificate", chosen, denominator)]
        accumulate_gradient(scorer, step, {}, None, without_penalties(update), ppo)
        parts.append([torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in trained])
    _clear_gradients(trained)
    return {parameter: added - taken for parameter, added, taken in zip(trained, *parts, strict=True)}


def _clear_gradients(weights: Sequence[Tensor]) -> None:
    for weight in weights:
        weight.grad = None


def validation_loss(scorer: Scorer, validation: Validation) -> float:
    """L_val, in float32 where weights have 16 bits; the sums are in float64."""
    parts = [math.fsum(losses) for losses in all_gather(_row_losses(scorer, validation))]
    return math.fsum(parts) / validation.tokens


def _row_losses(scorer: Scorer, validation: Validation) -> list[float]:
    """-c_j Σ_t log p_jt of the distinct rows that this process computes."""
    rows, coefficients = validation.distinct_rows()
    losses: dict[GradientRow, float] = {}
    with torch.no_grad(), float32_weights(scorer.model), fast_layers(scorer.model):
        for batch, counts in local_steps(scorer.model, scorer.batches(rows, world_size())):
            sums = scorer.score(batch).logprobs.double().sum(1).tolist()
            for value, s in zip(sums, batch.samples if counts else [], strict=counts):
                losses[row_of(s)] = -coefficients[row_of(s)] * value
    return [losses[row_of(s)] for s in rows if row_of(s) in losses]


def _noise(scorer: Scorer, validation: Validation) -> float:
    """Rounding error of the loss, from independent errors of the tokens' log-probabilities.

    Where weights have few bits, some of their products may be out of float32's reach, so the error is at least what the
    loss changes by when it is computed again in smaller micro-batches.
    """
    narrow, dtype = has_narrow_weights(scorer.model), next(scorer.model.parameters()).dtype
    unit = ROUNDING * torch.finfo(torch.float32 if narrow else dtype).eps
    pairs = zip(validation.samples, validation.coefficients, strict=True)
    squares = sum(len(s.completion) * c**2 for s, c in pairs)
    error: float = unit * squares**0.5
    if narrow and world_size() == 1:
        smaller = replace(scorer, tokens=max(scorer.tokens // 2, 1))
        changes = zip(_row_losses(scorer, validation), _row_losses(smaller, validation), strict=True)
        error = max(error, sum((a - b) ** 2 for a, b in changes) ** 0.5)
    return error / validation.tokens


@contextmanager
def _shifted(gradient: dict[Tensor, Tensor], by: float) -> Iterator[None]:
    """Shift each weight by `by` times its gradient inside the block, and restore it bit for bit after it."""
    before = [weight.detach().clone() for weight in gradient]
    with torch.no_grad():
        for weight, derivative in gradient.items():
            weight += by * derivative
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in zip(gradient, before, strict=True):
                weight.copy_(value)  # subtracting the step again would leave its rounding
