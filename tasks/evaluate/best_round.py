"""Selection of the best round, and plateau detection over rounds, on dev problems, never on test."""

from collections.abc import Sequence

from tasks.records.evaluation import Standing
from tasks.seeds import derive_seed
from tasks.statistics.intervals import CONFIDENCE, Estimate, difference_interval
from tasks.statistics.plateau import describe_plateau


def is_measured(round: int, last: int, every: int) -> bool:
    """True for every `every`-th round and the last; `every` 0: for none."""
    return every > 0 and (round % every == 0 or round == last)


def best_standing(standings: Sequence[Standing]) -> Standing:
    """The standing with the most right samples, ties to the earliest round. Raises ValueError without standings.

    n samples of a problem are more precise than one greedy completion.
    """
    return min(standings, key=lambda standing: (-sum(standing.correct), standing.round))


def pass_at_1_difference(standing: Standing, other: Standing, seed: int) -> Estimate:
    """Difference of two rounds' pass@1 with its interval, paired over the dev problems."""
    shares, others = ([count / s.samples for count in s.correct] for s in (standing, other))
    return difference_interval(shares, others, derive_seed(seed, "rounds", standing.round, other.round))


def plateau_remarks(standings: Sequence[Standing], seed: int) -> list[str]:
    """A remark if pass@1 has reached a plateau (tasks/statistics/plateau.py), by the paired interval of the change."""
    by_round = {standing.round: standing for standing in standings}

    def differ(round: int, other: int) -> bool:
        change = pass_at_1_difference(by_round[round], by_round[other], seed)
        return change.low > 0 or change.high < 0

    levels = {standing.round: standing.pass_at_1 for standing in standings}
    return describe_plateau("pass@1 on dev", levels, differ, "or stop earlier")


def choice_reason(chosen: Standing, standings: Sequence[Standing], last: int, seed: int) -> str:
    """One line for people: why this round was chosen."""
    name = f"round {chosen.round}" + (", the last," if chosen.round == last else "")
    if len(standings) == 1:
        return f"{name} is the only one that was measured: pass@1 {chosen.pass_at_1:.3f} on dev"
    level = f"{name} has the highest pass@1 on {len(chosen.correct)} dev problems: {chosen.pass_at_1:.3f}"
    if chosen.round == last:
        return level
    final = standings[-1]
    change = pass_at_1_difference(chosen, final, seed)
    return (
        f"{level}, against {final.pass_at_1:.3f} of the last ({100 * CONFIDENCE:g} % interval of the difference "
        f"{change.low:.3f} … {change.high:.3f})"
    )
