"""Learning curves of a run: a table with a row of each round, and pass@k of the first and the final policy.

Both are CSV tables, which `dvc plots` draws.
"""

from collections.abc import Mapping

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
