"""The report of a finished run in the terminal, from the run's record: measures, rounds, seconds, the decision.

`run/page.html` shows the rest: histograms, reward terms, influence. What is remarkable in a stage, the stage prints.
"""

import os
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from flows.reports.comparison import change, changes, level_with_interval, mean_titles, policy_levels, title_of
from flows.reports.run_record import RunRecord
from flows.stages.dvc_yaml import stage_of
from tasks.artifacts import read_json
from tasks.core.terminal import make_table
from tasks.evaluate.environment_measures import is_level
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.evaluation import Choice
from tasks.records.promotion import Promotion
from tasks.redaction import redacted
from tasks.reward.metrics import plateau_remarks
from tasks.statistics.intervals import CONFIDENCE

SHARES = {"invalid": "invalid samples", "cut": "cut samples"}
"""Metric → title, of the samples."""


def print_report(
    layout: Layout,
    params: Params,
    record: RunRecord,
    seconds: dict[str, float],
    cached: set[str],
    console: Console,
) -> None:
    """Print the report. `seconds`: stage id → seconds in this run. Raises GraftError if a result is missing."""
    for table in (*_with_base(record), _learning(record), _means(record), _rounds(params, record)):
        console.print(table)
        console.print()
    for remark in _remarks(layout, params, record):
        console.print(remark, style="dim", highlight=False)
    console.print(_stages(seconds, cached))
    console.print()
    promoted = read_json(layout.promotion, Promotion).promoted
    console.print(record.decision, style="bold green" if promoted else "bold", highlight=False)
    if record.power:
        console.print(record.power, style="dim", highlight=False)
    console.print()
    console.print(_places(layout, params))


def _with_base(record: RunRecord) -> list[Table]:
    """Base, warm start and final policy, after a warm start: with their change they would not fit in one table."""
    if not (levels := policy_levels(record)):
        return []
    table = make_table(*levels[0], wrap=levels[0][0])
    for title, *cells in levels[1:]:
        table.add_row(title.replace("pass@1 greedy ", "  "), *cells)
    return [table]


def _learning(record: RunRecord) -> Table:
    """Measures on the test problems before and after the rounds, with their intervals; the change is paired."""
    title, (*_, first, last) = f"{len(record.outcomes['after'])} test problems", record.policies().items()
    table = make_table(title, first[0], last[0], "change", wrap=title)
    for measure in changes(record):
        levels = (level_with_interval(numbers, measure.name) for _, numbers in (first, last))
        table.add_row(title_of(measure.name).replace("pass@1 greedy ", "  "), *levels, change(measure.difference))
    return table


def _means(record: RunRecord) -> Table:
    """Shares of the samples without a result and cut at their length limit, costs, and the environment's measures."""
    *_, (before, first), (after, last) = record.policies().items()
    table = make_table("means", before, after, "change", wrap="means")
    for name, title in {**SHARES, **mean_titles(filter(is_level, last))}.items():
        if name in first:
            levels = (level_with_interval(numbers, name) for numbers in (first, last))
            table.add_row(title, *levels, f"{last[name] - first[name]:+.3f}")
    return table


def _rounds(params: Params, record: RunRecord) -> Table:
    compared = ["dev pass@1"] if params.evaluation.every else []
    names = ("samples", "mean reward", "deviation", "accumulated", "solved", "kept")
    table = make_table("round", *names, *compared, right=True)
    for number in range(1, record.rounds + 1):
        reward, selected = record.numbers(f"reward@{number}"), record.numbers(f"select@{number}")
        dev = record.numbers(f"validate@{number}") if compared else {}
        table.add_row(
            str(number),
            f"{reward['epoch/samples']:.0f}",
            f"{reward['epoch/mean_reward']:.3f}",
            f"{reward['epoch/reward_std']:.3f}",
            f"{reward['epoch/accumulated_reward']:.1f}",
            f"{100 * reward['solved_share']:.0f} %",
            f"{100 * selected['selected_share']:.0f} %",
            *([f"{dev['pass_at_1']:.3f}"] if dev else []),
        )
    return table


def _remarks(layout: Layout, params: Params, record: RunRecord) -> list[str]:
    """How the tables are read, the round whose policy was chosen, and what only several rounds together tell."""
    rewards = {number: record.numbers(f"reward@{number}") for number in range(1, record.rounds + 1)}
    return [
        f"In brackets intervals of {100 * CONFIDENCE:g} % over the problems.",
        *([f"Best: {read_json(layout.best, Choice).reason}."] if params.evaluation.every else []),
        *(f"{remark}." for remark in plateau_remarks(rewards)),
        *(f"{line[0].upper()}{line[1:]}." for line in record.training_lines),
        *record.alarms,
        *record.selection_lines,
        *record.audit_lines,
        *record.baseline_lines,
        *(f"On {line}." for line in record.kept),
        "",
    ]


def _stages(seconds: Mapping[str, float], cached: set[str]) -> Table:
    """One row per stage, summed over rounds."""
    table = make_table("stage", "times", "seconds", "", right=True)
    for stage in dict.fromkeys(map(stage_of, seconds)):
        ids = [stage_id for stage_id in seconds if stage_of(stage_id) == stage]
        hits = sum(stage_id in cached for stage_id in ids)
        note = "" if not hits else "cached" if hits == len(ids) else f"{hits} of {len(ids)} cached"
        table.add_row(stage, str(len(ids)), f"{sum(seconds[stage_id] for stage_id in ids):.1f}", note)
    table.add_section()
    table.add_row("all", str(len(seconds)), f"{sum(seconds.values()):.1f}", "")
    return table


def _places(layout: Layout, params: Params) -> Table:
    paths = {
        "policy": layout.run_policy,
        "workflows": layout.workflows(params.rounds.last),
        "evaluation": layout.evaluation("after"),
        "page": layout.page,
        "champion": layout.champion,
        "challenger": layout.challenger,
    }
    table = Table.grid(padding=(0, 2))
    for name, path in paths.items():
        if path.exists():
            table.add_row(name, os.path.relpath(path))
    table.add_row(
        params.machine.tracking.title, redacted(params.machine.tracking.uri) or "off (machine.tracking.uri is empty)"
    )
    table.add_row("pages", "graft ui")
    return table
