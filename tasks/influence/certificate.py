"""Whether influence is true: what it predicts against what really happens.

Influence is a derivative. With weights w_i of either sign, a step of the adapter along d = -Σ w_i ∇L_i, of length ε,
changes the validation loss by

    -ε Σ w_i influence_i / ‖Σ w_i ∇L_i‖ + O(ε²)

Here w_i is the sign of influence_i, on one draw of samples after the other: what was called helpful is stepped on and
what was called harmful stepped away from. The step is really taken, both ways (which leaves O(ε³)), and the loss
computed anew. Gradient and loss are written out here and computed as the update computes them, not as influence does:
a wrong sign, a wrong mask, a loss on one side and an objective on the other, or another policy's gradient all show.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.errors import GraftError
from tasks.influence.influence import denominator_of
from tasks.policy.averaging import Averaging
from tasks.policy.lean import lean
from tasks.policy.samples import Sample, merged
from tasks.policy.scorer import Scorer

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 2
"""Steps that are tried, each both ways: as many times two forward passes over the validation samples."""

ROWS = 48
"""Samples that a step is made of, at most."""

LENGTH = 1e-3
"""Length of a step, as a share of the adapter's norm."""

ROUNDING = 10
"""Of a token's log-probability, in units of the weights' precision."""

CLEAR = 30
"""A change that is not so many times the loss's rounding is not looked at."""

TOLERANCE = 0.05
"""Of the slope in float32; where influence is right, it is off by less than a hundredth."""


@dataclass(frozen=True)
class Certificate:
    """What the steps did, against what influence said that they would."""

    slope: float  # real over predicted change of what the steps promise to lower: -1 where influence is right
    sign_agreement: float  # share of the steps that lowered the loss
    steps: int

    def check(self) -> None:
        """Raises GraftError where influence is not what happens."""
        if self.steps and not (abs(self.slope + 1) <= TOLERANCE and self.sign_agreement == 1):
            raise GraftError(
                f"influence: small steps change the validation loss by {-self.slope:.2f} of what influence predicts "
                f"(1 is right; {self.sign_agreement:.0%} of {self.steps} steps have the right sign), so it cannot be "
                "trusted to select; set influence.selection to none, and report this"
            )


def certify(
    scorer: Scorer,
    samples: Sequence[Sample],
    validation: Sequence[Sample],
    influences: Sequence[float],
    averaging: Averaging,
    seed: int,
) -> Certificate:
    """Take small steps and come back. `influences` [n] of the samples, a sample's own vote included where it has one.

    What is too small to be told from rounding is left out: with no influence but 0 there are no steps.
    """
    rows = list({s.completion + s.prompt: (s, i) for s, i in zip(samples, influences, strict=True) if i}.values())
    random.Random(seed).shuffle(rows)
    denominator, noise = denominator_of(samples, averaging), _noise(scorer, validation, averaging)
    predicted, real = [], []
    for drawn in (rows[start : ROWS * STEPS : STEPS] for start in range(min(STEPS, len(rows)))):
        signed = {s: 1.0 if influence > 0 else -1.0 for s, influence in drawn}
        gradient = _gradient(scorer, signed, averaging, denominator)
        size = sum(float(g.double().square().sum()) for g in gradient.values()) ** 0.5
        step = LENGTH * sum(float(w.detach().double().square().sum()) for w in gradient) ** 0.5
        values = []
        for way in (1, -1):
            with _moved(gradient, -way * step / size):
                values.append(_loss(scorer, validation, averaging))
        change = step / size * sum(abs(influence) for _, influence in drawn)
        if change > CLEAR * noise:
            predicted.append(change)
            real.append((values[0] - values[1]) / 2)
    if not predicted:
        return Certificate(slope=-1.0, sign_agreement=1.0, steps=0)
    slope = sum(p * r for p, r in zip(predicted, real, strict=True)) / sum(p * p for p in predicted)
    return Certificate(slope, sum(r < 0 for r in real) / len(real), len(real))


def _gradient(
    scorer: Scorer, signed: dict[Sample, float], averaging: Averaging, denominator: int
) -> "dict[Tensor, Tensor]":
    """∇ Σ_i sign_i L_i by the adapter's weights, in the update's layout."""
    import torch

    weights = [weight for weight in scorer.model.parameters() if weight.requires_grad]
    gradients = [torch.zeros_like(weight) for weight in weights]
    with lean(scorer.model):
        for batch in scorer.batches(list(signed)):
            sums = scorer.score(batch).logprobs.sum(1)
            gains = [signed[s] * s.advantage * averaging.weight(len(s.completion)) for s in batch.samples]
            loss = -(sums @ sums.new_tensor(gains)) / denominator
            for summed, gradient in zip(gradients, torch.autograd.grad(loss, weights), strict=True):
                summed += gradient
    return dict(zip(weights, gradients, strict=True))


def _loss(scorer: Scorer, samples: Sequence[Sample], averaging: Averaging) -> float:
    """-Σ_j A_j w_j Σ_t log p_jt / M."""
    import torch

    total = 0.0
    with torch.no_grad(), lean(scorer.model):
        for batch in scorer.batches(merged([s for s in samples if s.advantage != 0])):
            sums = scorer.score(batch).logprobs.double().sum(1).tolist()
            for value, s in zip(sums, batch.samples, strict=True):
                total -= s.count * s.advantage * averaging.weight(len(s.completion)) * value
    return total / denominator_of(samples, averaging)


def _noise(scorer: Scorer, samples: Sequence[Sample], averaging: Averaging) -> float:
    """What rounding may do to the loss: that of each token's log-probability, independently."""
    import torch

    unit = ROUNDING * torch.finfo(next(scorer.model.parameters()).dtype).eps
    squares = sum(len(s.completion) * (s.advantage * averaging.weight(len(s.completion))) ** 2 for s in samples)
    return float(unit * squares**0.5 / denominator_of(samples, averaging))


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
