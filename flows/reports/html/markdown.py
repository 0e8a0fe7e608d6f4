"""Summary of a finished run in Markdown, for its pages in Prefect and MLflow."""

from flows.history.run_history import Changes
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


def with_changes(summary: str, changes: Changes | None) -> str:
    """The summary, and below it what differs from the last run of the workspace that succeeded."""
    if changes is None:
        return summary
    rows = [f"| {key} | {old} | {new} |" for key, (old, new) in changes.params.items()]
    table = ["| Params that differ from the run before | before | this run |", "|---|---|---|", *rows] if rows else []
    others = [f"From the run before differ: {', '.join(changes.others)}"] if changes.others else []
    return "\n".join([summary, *(["", *table] if table else []), *(["", *others] if others else [])])
