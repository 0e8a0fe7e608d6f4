"""Baselines of a run: stored workflows in a fixed order, and the first policy with more samples.

A few stored workflows may solve as much as a policy that writes one for each question (arXiv 2601.11147), and many
samples of an untrained policy as much as few of a trained one.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from tasks.records.evaluation import ProblemOutcome
from tasks.seeds import derive_seed
from tasks.statistics.intervals import Estimate, difference_interval, mean_interval


def greedy_cover(solved: Mapping[str, AbstractSet[str]], most: int) -> list[tuple[str, int]]:
    """Up to `most` programs, each with how many problems it solves that none before it does.

    `solved`: program → the problems that it solves. The next one is that with the most; of equal ones the first in
    the order of their text. It ends where no program solves a further problem.
    """
    covered, chosen = set[str](), list[tuple[str, int]]()
    while solved and len(chosen) < most:
        code = min(solved, key=lambda code: (-len(solved[code] - covered), code))
        if not (gain := len(solved[code] - covered)):
            break
        covered |= solved[code]
        chosen.append((code, gain))
    return chosen


def majority_share(outcome: ProblemOutcome) -> float:
    """Chance that the most frequent answer of all samples is right: 1 or 0, or where several are, one of these."""
    rivals = [count for count in outcome.wrong if count >= outcome.correct]
    if not outcome.correct or any(count > outcome.correct for count in rivals):
        return 0.0
    return 1 / (1 + len(rivals))


def stored_metrics(right: Sequence[Sequence[bool]], seed: int) -> dict[str, float]:
    """Shares of the test problems of which one of the stored workflows is right, and the first one. `right` [K][P]."""
    solved = {"workflows_solve": [float(any(own)) for own in zip(*right, strict=True)]}
    return {"workflows": float(len(right))} | _shares(solved | {"first_workflow_solves": [*map(float, right[0])]}, seed)


def sample_metrics(outcomes: Sequence[ProblemOutcome], trained: Sequence[float], seed: int) -> dict[str, float]:
    """Shares of the test problems [P] of which one of the first policy's samples is right, and their majority is.

    `trained` [P]: whether the trained policy's greedy completion is; its lead over the majority is paired.
    """
    majority, name = [majority_share(outcome) for outcome in outcomes], "lead_over_majority"
    solved = {"samples_solve": [float(outcome.correct > 0) for outcome in outcomes], "majority_solves": majority}
    lead = difference_interval(trained, majority, derive_seed(seed, "interval", name))
    return {"samples": float(outcomes[0].samples)} | _shares(solved, seed) | _with_ends(name, lead)


def _shares(values: Mapping[str, Sequence[float]], seed: int) -> dict[str, float]:
    """Name → values of the problems: their means with intervals."""
    numbers = dict[str, float]()
    for name, shares in values.items():
        numbers |= _with_ends(name, mean_interval(shares, derive_seed(seed, "interval", name)))
    return numbers


def _with_ends(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
