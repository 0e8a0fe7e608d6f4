"""Whether influence is true: what it predicts against what really happens.

Influence is a derivative. With weights w_i of either sign, a step of the adapter along d = -Σ w_i ∇L_i, of length ε,
changes the validation loss by

    -ε Σ w_i influence_i / ‖Σ w_i ∇L_i‖ + O(ε²)

Here w_i is the sign of influence_i, on one draw of samples after the other: what was called helpful is stepped on and
what was called harmful stepped away from. The step is really taken, both ways (which leaves O(ε³)), and the loss
computed anew. Gradient and loss are written out here and computed as the update computes them, not as influence does:
a wrong sign, a wrong mask, a loss on one side and an objective on the other, or another policy's gradient all show.
Several processes take the same steps, each on its own copy of the policy, and compute a part of gradient and loss.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.errors import GraftError
from tasks.influence.loss_gradients import Validation, distinct_rows, loss_denominator, row_of
from tasks.model.distributed.collectives import all_gather, all_reduce_sum, local_part, world_size
from tasks.model.fast_layers.fast_layers import fast_layers
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights

if TYPE_CHECKING:
    from torch import Tensor

CERTIFICATE_STEPS = 2
"""Steps that are tried, each both ways: as many times two forward passes over the validation samples."""

MAX_ROWS = 48
"""Samples that a step is made of, at most."""

STEP_LENGTHS = (1e-4, 1e-3)
"""Of a step, as a share of the adapter's norm: the first that changes the loss clearly. Longer ones bend."""

ROUNDING = 10
"""Of a token's log-probability, in units of the weights' precision."""

MIN_SIGNAL = 30
"""A change that is not so many times the loss's rounding is not looked at."""

SLOPE_TOLERANCE = 0.05
"""Of the slope in float32; where influence is right, it is off by less than a hundredth."""


@dataclass(frozen=True)
class Certificate:
    """What the steps did, against what influence said that they would."""

    slope: float  # real over predicted change of what the steps promise to lower: -1 where influence is right
    sign_agreement: float  # share of the steps that lowered the loss
    steps: int
    loss: float | None  # of the validation samples; where advantages weigh them, neither value nor sign says anything

    def check(self) -> None:
        """Raises GraftError where influence is not what happens."""
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
) -> Certificate:
    """Take small steps and come back. `influences` [n] are ⟨∇L_i, ∇L_val⟩ with nothing left out or rescaled.

    What is too small to be told from rounding is left out: with no influence but 0 there are no steps.
    """
    rows = list({s.completion + s.prompt: (s, i) for s, i in zip(samples, influences, strict=True) if i}.values())
    random.Random(seed).shuffle(rows)
    denominator, noise = loss_denominator(samples, averaging), _noise(scorer, validation)
    predicted, real, losses = [], [], []
    for drawn in (
        rows[start : MAX_ROWS * CERTIFICATE_STEPS : CERTIFICATE_STEPS]
        for start in range(min(CERTIFICATE_STEPS, len(rows)))
    ):
        signed = {s: 1.0 if influence > 0 else -1.0 for s, influence in drawn}
        gradient = _gradient(scorer, signed, averaging, denominator)
        size = sum(float(g.double().square().sum()) for g in gradient.values()) ** 0.5
        norm = sum(float(w.detach().double().square().sum()) for w in gradient) ** 0.5
        rate = sum(abs(influence) for _, influence in drawn) / size
        step = next((length * norm for length in STEP_LENGTHS if length * norm * rate > MIN_SIGNAL * noise), None)
        if step is None:
            continue
        values = []
        for way in (1, -1):
            with _moved(gradient, -way * step / size):
                values.append(_loss(scorer, validation))
        losses += values
        predicted.append(step * rate)
        real.append((values[0] - values[1]) / 2)
    if not predicted:
        return Certificate(slope=-1.0, sign_agreement=1.0, steps=0, loss=None)
    slope = sum(p * r for p, r in zip(predicted, real, strict=True)) / sum(p * p for p in predicted)
    return Certificate(slope, sum(r < 0 for r in real) / len(real), len(real), sum(losses) / len(losses))


def check_self_influence(products: Sequence[float], own: Sequence[float], votes: Sequence[float]) -> None:
    """Raise GraftError where samples that are their own validation would harm themselves on average.

    `products` [n] are ⟨∇L_i, ∇L_val⟩, `own` and `votes` [n] what a sample's score weighs in the two losses: where these
    are one loss, but for a factor, the products sum up to its squared gradient.
    """
    pairs = zip(own, votes, strict=True)
    scale = sum(votes) / sum(own) if sum(own) else 0.0
    if scale > 0 and all(abs(vote - scale * a) <= 1e-9 * abs(vote) for a, vote in pairs):
        mean, size = sum(products) / len(products), sum(map(abs, products)) / len(products)
        if mean < -1e-3 * size:
            raise GraftError(
                f"influence: its mean in the same batch is {mean:.2g}, but that is a squared gradient, so a sign is "
                "wrong; set influence.selection to none, and report this"
            )


def _gradient(
    scorer: Scorer, signed: dict[Sample, float], averaging: TokenWeights, denominator: int
) -> "dict[Tensor, Tensor]":
    """∇ Σ_i sign_i L_i by the adapter's weights, in the update's layout."""
    import torch

    weights = [weight for weight in scorer.model.parameters() if weight.requires_grad]
    gradients = [torch.zeros_like(weight) for weight in weights]
    with fast_layers(scorer.model):
        for batch in local_part(scorer.batches(list(signed), world_size())):
            sums = scorer.score(batch).logprobs.sum(1)
            gains = [signed[s] * s.advantage * averaging.weight(len(s.completion)) for s in batch.samples]
            loss = -(sums @ sums.new_tensor(gains)) / denominator
            for summed, gradient in zip(gradients, torch.autograd.grad(loss, weights), strict=True):
                summed += gradient
    return dict(zip(weights, all_reduce_sum(gradients), strict=True))


def _loss(scorer: Scorer, validation: Validation) -> float:
    """-Σ_j c_j w_j Σ_t log p_jt / M."""
    import torch

    averaging, total = validation.averaging, 0.0
    rows, coefficients = distinct_rows(validation.samples, validation.coefficients)
    with torch.no_grad(), fast_layers(scorer.model):
        for batch in local_part(scorer.batches(rows, world_size())):
            sums = scorer.score(batch).logprobs.double().sum(1).tolist()
            for value, s in zip(sums, batch.samples, strict=True):
                total -= coefficients[row_of(s)] * averaging.weight(len(s.completion)) * value
    return sum(all_gather(total)) / loss_denominator(validation.samples, averaging)


def _noise(scorer: Scorer, validation: Validation) -> float:
    """What rounding may do to the loss: that of each token's log-probability, independently."""
    import torch

    samples, averaging = validation.samples, validation.averaging
    unit = ROUNDING * torch.finfo(next(scorer.model.parameters()).dtype).eps
    pairs = zip(samples, validation.coefficients, strict=True)
    squares = sum(len(s.completion) * (c * averaging.weight(len(s.completion))) ** 2 for s, c in pairs)
    return float(unit * squares**0.5 / loss_denominator(samples, averaging))


@contextmanager
def _moved(gradient: "dict[Tensor, Tensor]", by: float) -> Iterator[None]:
    """In the block each weight stands `by` times its gradient away; after it, where it stood to the last bit."""
    import torch

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
