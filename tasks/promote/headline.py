"""Headline of a run: the few numbers that tell whether its policy is better, for `dvc metrics` and `dvc exp show`."""

from collections.abc import Mapping

from tasks.statistics.intervals import Estimate
from tasks.statistics.learning_curves import ks_of

DECIMALS = 3
"""Of each number, so that a row of all of them, with the run's name, fits into 120 columns."""


def headline(before: float, after: Mapping[str, float], change: Estimate, promoted: bool) -> dict[str, float]:
    """Eight numbers of the test problems, in the order in which they are shown.

    `greedy`: share that the final policy solves greedily; `before`: the first policy's; `change`: the difference with
    its interval `low` … `high`; `promoted`: 1 or 0; `sampled`, `pass@k` with the largest k: of the final policy's
    samples. `after`: the metrics of its evaluation.
    """
    k = ks_of(after)[-1]
    numbers = {
        "greedy": after["pass_at_1_greedy"],
        "before": before,
        "change": change.mean,
        "low": change.low,
        "high": change.high,
        "promoted": int(promoted),
        "sampled": after["sampled_mean"],
        f"pass@{k}": after[f"pass_at_{k}"],
    }
    return {name: round(number, DECIMALS) for name, number in numbers.items()}
