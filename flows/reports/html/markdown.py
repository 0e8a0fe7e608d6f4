"""Summary of a finished run in Markdown, for the page of the flow run in Prefect."""

from flows.reports.comparison import level, title_of
from flows.reports.run_record import RunRecord

ABSENT = "–"


def summary_of(account: RunRecord) -> str:
    """The decision in the first line, then pass@k before and after. No text of a model is included."""
    before, after = (account.metrics[f"evaluate@{when}"] for when in ("before", "after"))
    measures = ["pass_at_1_greedy", *(f"pass_at_{k}" for k in account.ks)]
    rows = [f"| {title_of(name)} | {_cell(before, name)} | {_cell(after, name)} |" for name in measures]
    head = [f"| {len(account.outcomes['after'])} test problems | before | after |", "|---|---|---|"]
    return "\n".join([account.decision, "", *head, *rows])


def _cell(metrics: dict[str, float], name: str) -> str:
    """`0.495 (0.42–0.56)`, with the interval if there is one."""
    if name not in metrics:
        return ABSENT
    low, high = metrics.get(f"{name}_low"), metrics.get(f"{name}_high")
    return level(metrics[name]) + ("" if low is None or high is None else f" ({low:.2f}–{high:.2f})")
