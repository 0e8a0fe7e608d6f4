"""The gradient of the update's first step, out of the gradients that influence was measured with.

At the policy that the samples were scored at, the update's loss on those that are selected has the gradient

    Σ_i a_i w_i s_i        a_i = -A_i averaging_i / N, w_i what the selection lets the sample weigh

so that no pass over them is needed (tasks/influence/gradient_algebra.py). It leaves out what `influences` leaves out,
too: KL and entropy. Selection and update are stages of their own in the pipeline; this is for a loop that has both in
one process.
"""

from collections.abc import Sequence

from tasks.influence.gradient_algebra import total, weighted_sum
from tasks.influence.gradient_passes import Passes, Row
from tasks.influence.sample_gradients import lora_factors
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import Averaging


def write_gradient(
    scorer: Scorer,
    passes: Passes,
    samples: Sequence[Sample],
    weights: Sequence[float],
    averaging: Averaging,
    denominator: int,
) -> None:
    """Write it to `.grad` of the LoRA factors, in place of what stands there.

    `passes` keeps the gradients of all `samples` [n] whose `weights` [n] are not 0; `denominator` is N, which in the
    update counts silent samples too. Raises ValueError where one is not kept.
    """
    import torch

    factors = {name: module.weight for name, module in lora_factors(scorer.model).items()}
    gains = dict[Row, float]()
    for s, weight in zip(samples, weights, strict=True):
        gain = -s.advantage * weight * averaging.weight(len(s.completion)) / denominator
        gains[passes.row_of(s)] = gains.get(passes.row_of(s), 0.0) + gain
    if not passes.hold(s for s in samples if gains[passes.row_of(s)]):
        raise ValueError("the gradients of some selected samples are not kept: the memory budget is too small for them")
    parts = [{name: torch.zeros_like(weight) for name, weight in factors.items()}]
    for part in passes:
        own = torch.tensor([gains.get(passes.row_of(s), 0.0) for s in part.rows], dtype=torch.float64)
        parts.append(weighted_sum(part.votes, own))
    for name, gradient in total(parts).items():
        factors[name].grad = gradient.to(factors[name].dtype)
