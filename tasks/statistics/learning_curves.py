"""Learning curves and headline of a run.

A table with a row of each round, and pass@k of the first and the final policy, are CSV tables, which `dvc plots` draws;
the few numbers that tell whether the policy is better are for `dvc metrics` and `dvc exp show`.
"""

from collections.abc import Mapping

from tasks.statistics.intervals import Estimate

CURVES = {
    "mean_reward": ("reward", "epoch/mean_reward"),
    "reward_std": ("reward", "epoch/reward_std"),
    "solved_share": ("reward", "solved_share"),
    "selected_share": ("select", "selected_share"),
    "kl": ("update", "kl"),
    "entropy": ("update", "entropy"),
}
"""Column → the stage of the round that measures it, and its metric."""

HEADER = ",".join(["round", *CURVES]) + "\n"

DECIMALS = 3
"""Decimals of a number, so that a row of all of them, with the run's name, fits into 120 columns."""


def ks_of(metrics: Mapping[str, float]) -> list[int]:
    """The k of each `pass_at_k` among the metrics of an evaluation, ascending."""
    return sorted(int(name.removeprefix("pass_at_")) for name in metrics if name.removeprefix("pass_at_").isdigit())


def pass_at_k_table(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """pass@k of samples by k, from the metrics of both evaluations."""
    lines = [f"{k},{before[f'pass_at_{k}']},{after[f'pass_at_{k}']}" for k in ks_of(after)]
    return "\n".join(["k,before,after", *lines]) + "\n"


def round_row(round: int, metrics: Mapping[str, Mapping[str, float]]) -> str:
    """A round's line of the table. `metrics`: those of the stages of CURVES. What was not measured is empty."""
    values = [metrics[stage].get(name) for stage, name in CURVES.values()]
    return ",".join([str(round), *("" if value is None else str(value) for value in values)]) + "\n"


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
