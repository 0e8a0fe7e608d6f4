"""Certificate of influence: the change of the validation loss that it predicts, against the change that happens.

Influence is a derivative. With weights w_i of either sign, a step of the adapter along d = -Σ w_i ∇L_i, of length ε,
changes the validation loss by

    -ε Σ w_i influence_i / ‖Σ w_i ∇L_i‖ + O(ε²)

Here w_i is the sign of influence_i, for one random draw of samples after the other. The step is taken in both
directions (which leaves O(ε³)), and the loss computed again. Gradient and loss are computed as the update computes
them, not as influence does: a wrong sign, a wrong mask, a loss on one side and an objective on the other, or another
policy's gradient all show. Several processes take the same steps, each on its own copy of the policy, and compute a
part of gradient and loss.

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
from tasks.model.distributed.collectives import all_gather, all_reduce_sum, local_steps, world_size
from tasks.model.hf_model import float32_weights, has_narrow_weights
from tasks.model.layers.fast_layers import fast_layers
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.select.losses import Row, TokenLosses, Validation, loss_denominator, row_of, summed_losses

CERTIFICATE_STEPS = 2
"""Steps, each in both directions: each costs two forward passes over the validation samples."""

MAX_ROWS = 48
"""Samples of a step, at most."""

STEP_LENGTHS = (1e-4, 1e-3)
"""Lengths of a step as shares of the adapter's norm: the first that changes the loss clearly is taken."""

ROUNDING = 10
"""Rounding error of a token's log-probability, in units of the weights' precision."""

MIN_SIGNAL = 30
"""A change of the loss counts if it is at least this multiple of its rounding error."""

SLOPE_TOLERANCE = 0.05
"""Tolerance of the slope; with right influences it is off by less than 0.01, in 16 bits by less than 0.02."""


@dataclass(frozen=True)
class Certificate:
    """The measured effect of the steps against the predicted one."""

    slope: float  # measured / predicted change of the loss: -1 where influence is right
    sign_agreement: float  # share of the steps that lowered the loss
    steps: int
    draws: int  # of samples, each for a step; 0 where all influences are 0
    loss: float  # validation loss; weighted by advantages, neither its value nor its sign has a meaning

    def check(self) -> None:
        """Raise GraftError where influence does not predict the measured change, or no change could be measured."""
        if self.draws and not self.steps:
            raise GraftError(
                "influence: no small step changes the validation loss by more than its rounding error, so influence "
                "cannot be trusted to select; give it more validation samples (influence.n, problems.validation), or "
                "set influence.selection to none"
            )
        if self.steps and not (abs(self.slope + 1) <= SLOPE_TOLERANCE and self.sign_agreement == 1):
            raise GraftError(
                f"influence: small steps change the validation loss by {-self.slope:.2f} of what influence predicts "
                f"(1 is right; {self.sign_agreement:.0%} of {self.steps} steps have the right sign), so it cannot be "
                "trusted to select; set influence.selection to none, and report this"
            )


def certify(
    scorer: Scorer,
    samples: Sequence[Sample],
    influences: Sequence[float],
    averaging: TokenWeights,
    validation: Validation,
    seed: int,
    token_losses: TokenLosses | None = None,
) -> Certificate:
    """Take small steps and undo them. `influences` [n] are ⟨∇L_i, ∇L_val⟩.

    `token_losses`: those that the influences are of.

    Steps whose effect is within rounding error are left out; where all influences are 0 there are no draws.
    """
    rows = list({s.completion + s.prompt: (s, i) for s, i in zip(samples, influences, strict=True) if i}.values())
    random.Random(seed).shuffle(rows)
    denominator, noise = loss_denominator(samples, averaging), _noise(scorer, validation)
    predicted, real, losses = [], [], []
    most, starts = MAX_ROWS * CERTIFICATE_STEPS, range(min(CERTIFICATE_STEPS, len(rows)))
    for drawn in (rows[start:most:CERTIFICATE_STEPS] for start in starts):
        signed = {s: 1.0 if influence > 0 else -1.0 for s, influence in drawn}
        gradient = _gradient(scorer, signed, averaging, denominator, token_losses)
        size = sum(float(g.double().square().sum()) for g in gradient.values()) ** 0.5
        norm = sum(float(w.detach().double().square().sum()) for w in gradient) ** 0.5
        rate = sum(abs(influence) for _, influence in drawn) / size
        step = next((length * norm for length in STEP_LENGTHS if length * norm * rate > MIN_SIGNAL * noise), None)
        if step is None:
            continue
        values = []
        for direction in (1, -1):
            with _shifted(gradient, -direction * step / size):
                values.append(_loss(scorer, validation))
        losses += values
        predicted.append(step * rate)
        real.append((values[0] - values[1]) / 2)
    if not predicted:
        return Certificate(slope=math.nan, sign_agreement=0.0, steps=0, draws=len(starts), loss=math.nan)
    slope = sum(p * r for p, r in zip(predicted, real, strict=True)) / sum(p * p for p in predicted)
    return Certificate(slope, sum(r < 0 for r in real) / len(real), len(real), len(starts), sum(losses) / len(losses))


def _gradient(
    scorer: Scorer,
    signed: dict[Sample, float],
    averaging: TokenWeights,
    denominator: int,
    token_losses: TokenLosses | None,
) -> dict[Tensor, Tensor]:
    """∇ Σ_i sign_i L_i by the adapter's weights, in the update's layout."""
    weights = [weight for weight in scorer.model.parameters() if weight.requires_grad]
    gradients = [torch.zeros_like(weight) for weight in weights]
    with fast_layers(scorer.model):
        for batch, counts in local_steps(scorer.model, scorer.batches(list(signed), world_size())):
            scored = scorer.score(batch)
            if token_losses:
                sums, each = summed_losses(batch.samples, scored, token_losses), [1.0] * len(batch.samples)
            else:
                sums, each = scored.logprobs.sum(1), [-s.advantage for s in batch.samples]
            factors = [signed[s] * averaging.weight(len(s.completion)) for s in batch.samples]
            loss = sums @ sums.new_tensor([f * own for f, own in zip(factors, each, strict=True)]) / denominator
            found = torch.autograd.grad(loss, weights)
            for summed, gradient in zip(gradients, found if counts else [], strict=counts):
                summed += gradient
    return dict(zip(weights, all_reduce_sum(gradients), strict=True))


def _loss(scorer: Scorer, validation: Validation) -> float:
    """L_val, in float32 where weights have 16 bits; the sums are in float64."""
    parts = [math.fsum(losses) for losses in all_gather(_row_losses(scorer, validation))]
    return math.fsum(parts) / validation.tokens


def _row_losses(scorer: Scorer, validation: Validation) -> list[float]:
    """-c_j Σ_t log p_jt of the distinct rows that this process computes."""
    rows, coefficients = validation.distinct_rows()
    losses: dict[Row, float] = {}
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
        again = _row_losses(replace(scorer, tokens=max(scorer.tokens // 2, 1)), validation)
        changes = zip(_row_losses(scorer, validation), again, strict=True)
        error = max(error, sum((a - b) ** 2 for a, b in changes) ** 0.5)
    return error / validation.tokens


@contextmanager
def _shifted(gradient: dict[Tensor, Tensor], by: float) -> Iterator[None]:
    """Shift each weight by `by` times its gradient inside the block, and restore it bit for bit after it."""
    before = [weight.detach().clone() for weight in gradient]
    with torch.no_grad():
        for weight, own in gradient.items():
            weight += by * own
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, kept in zip(gradient, before, strict=True):
                weight.copy_(kept)
