"""The training samples of a round that a variant of `benchmarks.selection` learns from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.influence_selection.gradalign import aligned_problems
from benchmarks.influence_selection.variants import Variant
from tasks.model.sample import Sample
from tasks.objective.token_weights import TokenWeights
from tasks.seeds import derive_seed
from tasks.select.conformal_control import calibration_influences, shift_by_threshold
from tasks.select.losses import Validation
from tasks.select.tracin import cache_validation_gradients, influences

if TYPE_CHECKING:
    from tasks.model.scoring.scorer import Scorer

BY_TOKEN = TokenWeights("dapo", longest=1)

GRADALIGN_SHARE = 0.5
"""Share of the problems that GradAlign keeps: those with the highest cosine. Its authors' share is theirs to tune."""


@dataclass(frozen=True)
class RoundSamples:
    """The samples of a round. `truth`: those of training with the advantages that trusted rewards would give them."""

    training: Sequence[Sample]
    truth: Sequence[Sample]
    trusted: Sequence[Sample]

    @property
    def learnable(self) -> list[Sample]:
        """Training's, as they are learned from."""
        return [successes(s) for s in self.training]


def successes(sample: Sample) -> Sample:
    """As shipped (`update.negative_weight` 0): with failures at full weight, this policy unlearns in a few rounds."""
    return replace(sample, advantage=max(sample.advantage, 0.0))


def kept_by(variant: Variant, scorer: "Scorer", given: RoundSamples, seed: int, round: int) -> list[bool]:
    """Whether each training sample is learned from."""
    samples, rule = given.learnable, variant.rule
    signals = [s.advantage != 0 for s in samples]
    if rule in ("all", "noise_corrected", "majority", "olr"):
        return signals
    if rule == "truly_helpful":
        return [s.advantage * t.advantage > 0 for s, t in zip(samples, given.truth, strict=True)]
    if rule == "gradalign":
        aligned = aligned_problems(scorer, given.training, given.trusted, GRADALIGN_SHARE)
        return [s.advantage != 0 and s.problem_id in aligned for s in samples]
    found = compute_influences(scorer, given, variant)
    if rule == "negative":
        return [i < 0 for i in found]
    positive = [signal and i > 0 for signal, i in zip(signals, found, strict=True)]
    if rule == "positive":
        return positive
    lots = [derive_seed("random", seed, round, s.problem_id, s.member) for s in samples]
    ranks: Sequence[float] = lots if rule == "random" else found
    order = sorted((place for place, signal in enumerate(signals) if signal), key=lambda place: ranks[place])
    kept = set(order[: max(sum(positive), 1)])
    return [place in kept for place in range(len(samples))]


def compute_influences(scorer: "Scorer", given: RoundSamples, variant: Variant) -> list[float]:
    """Influence of each training sample; with control counted from the threshold, and above 0 where there is none.

    As shipped, with the prompts' keys and values as constants. Where no trusted sample has a signal, everything has
    influence 1.
    """
    from tasks.model.scoring.scorer import with_constant_prompts

    samples, shares = given.learnable, [abs(s.advantage) for s in given.training]
    voting = given.trusted
    own = [successes(s) for s in voting]
    if not any(s.advantage for s in samples) or not any(s.advantage for s in voting):
        return [1.0] * len(samples)
    scorer = with_constant_prompts(scorer, [*samples, *own])
    validation = Validation(own, [s.advantage for s in voting])
    local = variant.similarity == "local"
    cached = cache_validation_gradients(scorer, validation, variant.measure.budget) if local else None
    found = influences(scorer, samples, BY_TOKEN, validation, variant.measure, shares, cached=cached).each
    if not variant.control:
        return [s.influence or 0.0 for s in found]
    sizes = [abs(s.advantage) for s in voting]
    calibration = calibration_influences(scorer, BY_TOKEN, validation, variant.measure, sizes, samples, cached)
    return shift_by_threshold(samples, found, own, calibration) or [1.0] * len(samples)
