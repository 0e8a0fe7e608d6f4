"""The validation loss of a round: which samples it is of, and with which coefficients."""

from collections.abc import Sequence

from tasks.objective.groups import SampleGroup, samples_in
from tasks.params.sections import Influence
from tasks.seeds import derive_seed
from tasks.select.losses import Validation, coefficients_of


def validation_of(groups: Sequence[SampleGroup], influence: Influence, round: int) -> Validation:
    """The loss of the groups of a split, by `influence.loss` and of those samples that `influence.sampling` takes.

    Coefficients are those among all samples of the groups, before the highest or lowest are taken. A seed decides
    between equal rewards.
    """
    samples = samples_in(groups)
    rewards = [reward for group in groups for reward in group.baseline_rewards]
    advantages = [advantage for group in groups for advantage in group.advantages]
    coefficients = coefficients_of(influence.loss, advantages, rewards)
    if influence.validation == "same_batch" or influence.sampling == "random":
        return Validation(samples, coefficients)
    sign = -1 if influence.sampling == "highest" else 1
    known = [place for place, reward in enumerate(rewards) if reward is not None]

    def order(place: int) -> tuple[float, int]:
        sample = samples[place]
        return sign * (rewards[place] or 0.0), derive_seed("validation", round, sample.problem_id, sample.member)

    taken = sorted(sorted(known, key=order)[: influence.k])
    return Validation([samples[place] for place in taken], [coefficients[place] for place in taken])
