"""Summary of a finished run, for its pages in Prefect and MLflow: the decision, and pass@k before and after."""

from typing import NamedTuple

from flows.history.overrides import Overrides
from flows.history.run_history import Changes
from flows.reports.comparison import level_with_interval, title_of
from flows.reports.run_record import RunRecord
from tasks.evaluation.summary import measures
from tasks.seeds import derive_seed
from tasks.statistics.intervals import difference_interval


class Summary(NamedTuple):
    """`text` is Markdown: the decision in the first line, then the table. No text of a model is included."""

    text: str
    table: list[dict[str, str]]


def summary_of(record: RunRecord) -> Summary:
    """The decision, and pass@k before and after with the change and its paired interval, as in the report of a run."""
    table = [_row(record, name) for name in ("pass_at_1_greedy", *(f"pass_at_{k}" for k in record.evaluation.ks))]
    rows = ["| " + " | ".join(row.values()) + " |" for row in table]
    titles = [f"{len(record.outcomes['after'])} test problems", *list(table[0])[1:]]
    head = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    return Summary("\n".join([record.decision, "", *head, *rows]), table)


def _row(record: RunRecord, name: str) -> dict[str, str]:
    evaluation = record.evaluation
    before, after = (measures(record.outcomes[when], evaluation.ks)[name] for when in ("before", "after"))
    seed = derive_seed(evaluation.seed, "change", name)
    change = difference_interval(after, before, evaluation.resamples, evaluation.confidence, seed)
    return {
        "measure": title_of(name),
        "before": level_with_interval(record.metrics["evaluate@before"], name),
        "after": level_with_interval(record.metrics["evaluate@after"], name),
        "change": f"{change.mean:+.3f}",
        f"{100 * evaluation.confidence:g} % interval": f"{change.low:+.3f} … {change.high:+.3f}",
    }


def with_params(summary: str, changes: Changes | None, overrides: Overrides) -> str:
    """The summary, and below it the params that differ from the commit and from the last run that succeeded."""
    parts = [summary, *_table("Params that differ from the commit", "committed", overrides)]
    if changes:
        parts += _table("Params that differ from the run before", "before", changes.params)
        parts += [f"From the run before differ: {', '.join(changes.others)}"] if changes.others else []
    return "\n\n".join(parts)


def _table(title: str, old: str, params: Overrides) -> list[str]:
    rows = [f"| {key} | {before} | {now} |" for key, (before, now) in params.items()]
    return ["\n".join([f"| {title} | {old} | this run |", "|---|---|---|", *rows])] if rows else []
