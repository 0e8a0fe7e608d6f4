"""GradAlign: problems whose GRPO gradient points along that of a trusted validation set (Yang et al. 2026).

    cos(g_q, g_val)    g_q: the gradient of the GRPO loss on the completions of problem q, g_val: on the trusted ones

arXiv 2602.21492: problems are ranked by this cosine and the policy learns from the first of them, each step's problems
being ranked again as the policy changes; here, as for every variant, once a round. Gradients are over the LoRA factors
and have the advantages of both signs, as the paper's.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.model.sample import Sample
from tasks.select.losses import Validation
from tasks.select.tracin import validation_gradient

if TYPE_CHECKING:
    from torch import Tensor

    from tasks.model.scoring.scorer import Scorer


def aligned_problems(
    scorer: "Scorer", samples: Sequence[Sample], trusted: Sequence[Sample], share: float
) -> dict[str, float]:
    """The `share` of the problems with the highest cosine, rounded up, and their cosines; a problem that has no
    gradient is not ranked. Where no trusted sample has a signal, all are kept."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.problem_id, []).append(sample)
    ranked = {name: group for name, group in groups.items() if any(s.advantage for s in group)}
    if not any(s.advantage for s in trusted):
        return dict.fromkeys(ranked, 0.0)

    def gradient(samples: Sequence[Sample]) -> "Mapping[str, Tensor]":
        return validation_gradient(scorer, Validation(samples, [s.advantage for s in samples]))

    direction = gradient(trusted)
    cosines = {name: cosine(gradient(group), direction) for name, group in ranked.items()}
    order = sorted(cosines, key=lambda name: -cosines[name])
    return {name: cosines[name] for name in order[: math.ceil(share * len(order))]}


def cosine(one: "Mapping[str, Tensor]", other: "Mapping[str, Tensor]") -> float:
    """Of two gradients over the same factors; 0 where one of them is 0."""

    def product(a: "Mapping[str, Tensor]", b: "Mapping[str, Tensor]") -> float:
        return math.fsum(float((a[name].double() * b[name].double()).sum()) for name in a)

    norms = math.sqrt(product(one, one) * product(other, other))
    return product(one, other) / norms if norms else 0.0
