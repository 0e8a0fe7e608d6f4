"""What training is compared with: stored workflows in a fixed order, and the first policy with more samples.

A few stored workflows may solve as much as a policy that writes one for each question (arXiv 2601.11147), and many
samples of an untrained policy as much as few of a trained one.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from tasks.records.evaluation import ProblemOutcome
from tasks.seeds import derive_seed
from tasks.statistics.intervals import difference_interval, mean_interval


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
    ones = list(zip(*right, strict=True))
    numbers = {"workflows": float(len(right))}
    numbers |= _with_ends("workflows_solve", [float(any(one)) for one in ones], seed)
    return numbers | _with_ends("first_workflow_solves", [float(one[0]) for one in ones], seed)


def sample_metrics(outcomes: Sequence[ProblemOutcome], trained: Sequence[float], seed: int) -> dict[str, float]:
    """Shares of the test problems [P] of which one of the first policy's samples is right, and their majority is.

    `trained` [P]: whether the trained policy's greedy completion is; its lead over the majority is paired.
    """
    majority = [majority_share(outcome) for outcome in outcomes]
    lead = difference_interval(trained, majority, derive_seed(seed, "interval", "lead_over_majority"))
    return {
        "samples": float(outcomes[0].samples),
        **_with_ends("samples_solve", [float(outcome.correct > 0) for outcome in outcomes], seed),
        **_with_ends("majority_solves", majority, seed),
        **{"lead_over_majority": lead.mean, "lead_over_majority_low": lead.low, "lead_over_majority_high": lead.high},
    }


def _with_ends(name: str, values: Sequence[float], seed: int) -> dict[str, float]:
    mean, low, high = mean_interval(values, derive_seed(seed, "interval", name))
    return {name: mean, f"{name}_low": low, f"{name}_high": high}
