"""Summary of a finished run in Markdown, for the page of the flow run in Prefect."""

from flows.reports.comparison import level_with_interval, title_of
from flows.reports.run_record import RunRecord


def summary_of(record: RunRecord) -> str:
    """The decision in the first line, then pass@k before and after. No text of a model is included."""
    before, after = (record.metrics[f"evaluate@{when}"] for when in ("before", "after"))
    measures = ["pass_at_1_greedy", *(f"pass_at_{k}" for k in record.evaluation.ks)]
    rows = [
        f"| {title_of(name)} | {level_with_interval(before, name)} | {level_with_interval(after, name)} |"
        for name in measures
    ]
    head = [f"| {len(record.outcomes['after'])} test problems | before | after |", "|---|---|---|"]
    return "\n".join([record.decision, "", *head, *rows])
