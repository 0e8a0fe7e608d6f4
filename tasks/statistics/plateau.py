"""Plateaus: a level of the policy that has not changed for some rounds."""

from collections.abc import Callable, Mapping

PLATEAU_ROUNDS = 3
"""Rounds without a change that are worth a word."""


def describe_plateau(
    name: str, levels: Mapping[int, float], differ: Callable[[int, int], bool], remedy: str
) -> list[str]:
    """A remark where a level, known of these rounds in their order, has not moved for PLATEAU_ROUNDS, that is:

    No round since then differs from the round before them (the latest known one at least PLATEAU_ROUNDS before the
    last) by more than chance, which `differ` says of two rounds. Nothing is said of fewer rounds.
    """
    earlier = [number for number in levels if number <= max(levels) - PLATEAU_ROUNDS]
    if not earlier:
        return []
    start, since = earlier[-1], [number for number in levels if number > earlier[-1]]
    if any(differ(number, start) for number in since):
        return []
    shown = ", ".join(f"{levels[number]:.3f}" for number in (start, *since))
    return [
        f"{name} has not moved since round {start} ({shown}): none differs by more than chance; raise "
        f"update.learning_rate or search.simulations, {remedy}"
    ]
