"""The report of a finished run in the terminal: pass@k, rounds, influence, seconds, and the paths of the results."""

import os
from collections.abc import Collection, Mapping, Sequence
from math import ceil
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.reports.comparison import COSTS, change, changes, level_with_interval
from flows.reports.run_record import Bar, RunRecord
from flows.stages.dvc_yaml import stage_of
from tasks.artifacts import read_json, read_jsonl
from tasks.core.terminal import make_table
from tasks.environments.measures import PREFIX
from tasks.evaluate.best_round import plateau_remarks as dev_plateau_remarks
from tasks.evaluate.by_template import by_template, hardest
from tasks.evaluate.environment_measures import is_level
from tasks.evaluate.summary import BY_OPERATIONS
from tasks.evaluate.summary import remarks as evaluation_remarks
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.contract import line_of
from tasks.promotion_records import Promotion
from tasks.records import Choice, ProblemOutcome, Standing
from tasks.redaction import redacted
from tasks.reward.metrics import plateau_remarks as reward_plateau_remarks
from tasks.reward.metrics import remarks as reward_remarks
from tasks.reward.metrics import spread_remarks
from tasks.statistics.collapse import collapse_remarks
from tasks.statistics.influence_extremes import COUNT, InfluenceExtremes, read_influence_extremes
from tasks.statistics.intervals import CONFIDENCE, WILSON_BELOW

BARS = " ▁▂▃▄▅▆▇█"
MAX_ROWS = 3
"""Workflows at each end of influence, and templates."""

CODE_WIDTH = 44
"""Characters of a workflow, so that a line has at most 80 columns."""


def print_report(
    layout: Layout,
    params: Params,
    record: RunRecord,
    seconds: dict[str, float],
    cached: set[str],
    console: Console,
) -> None:
    """Print the report. `seconds`: stage id → seconds in this run. Raises GraftError if a result is missing."""
    console.print(_learning(params, record))
    for note in _notes(layout, params, record):
        console.print(note, style="dim", highlight=False)
    console.print()
    measures = _environment_measures(record)
    if measures.row_count:
        console.print(measures)
        console.print()
    console.print(_rounds(params, record))
    for line in _reward_histograms(record):
        console.print(line, highlight=False)
    for note in (
        *_terms(record),
        *_best(layout, params),
        *_reward_remarks(record),
        *_fdr_control(record),
        *_curriculum(record),
        *_support(record.numbers(f"search@{record.rounds}")),
    ):
        console.print(note, style="dim", highlight=False)
    console.print()
    _print_influence(layout, params, record, console)
    console.print(_stages(seconds, cached))
    console.print()
    promoted = read_json(layout.promotion, Promotion).promoted
    console.print(record.decision, style="bold green" if promoted else "bold", highlight=False)
    console.print()
    console.print(_places(layout, params))


def _learning(params: Params, record: RunRecord) -> Table:
    """Measures on the test split before and after, with the intervals of the evaluation; the change is paired.

    Then come shares of the sampled completions, those without a result and those cut at their length limit, and what
    they cost.
    """
    first, last = record.numbers("evaluate@before"), record.numbers("evaluate@after")
    differences = {found.name: found.difference for found in changes(record)}
    table = make_table(f"{len(record.outcomes['after'])} test problems", "before", "after", "change")
    for name, title in _titles(params, differences).items():
        if name in differences:
            levels = (level_with_interval(numbers, name) for numbers in (first, last))
            table.add_row(title, *levels, change(differences[name]))
    _add_means(table, {"invalid": "invalid samples", "cut": "cut samples", **COSTS}, record)
    return table


def _environment_measures(record: RunRecord) -> Table:
    """The environment's own measures over all test problems."""
    names = [name for name in record.numbers("evaluate@after") if is_level(name)]
    table = make_table("measure of the environment", "before", "after", "change")
    titles = {name: name.removeprefix(PREFIX).replace("_", " ").replace("/", " ") for name in names}
    _add_means(table, titles, record)
    return table


def _add_means(table: Table, titles: Mapping[str, str], record: RunRecord) -> None:
    """Rows of numbers that both have, with the interval of each level if there is one."""
    first, last = record.numbers("evaluate@before"), record.numbers("evaluate@after")
    for name, title in titles.items():
        if name in first:
            levels = (level_with_interval(numbers, name) for numbers in (first, last))
            table.add_row(title, *levels, f"{last[name] - first[name]:+.3f}")


def _titles(params: Params, measured: Collection[str]) -> dict[str, str]:
    """Measure → title of its row, the greedy ones first. `measured`: those that a test problem has."""
    lengths = [name.removeprefix(BY_OPERATIONS) for name in measured if name.startswith(BY_OPERATIONS)]
    novelties = {
        name: title
        for name, title in (
            ("pass_at_1_greedy_new_phrasing", "  new phrasings"),
            ("pass_at_1_greedy_new_composition", "  new compositions"),  # as wide as 80 columns allow
        )
        if name in measured
    }
    # of a single kind the row would repeat that of all new templates
    unseen = {"pass_at_1_greedy_unseen": "  new templates"} if len(novelties) != 1 else {}
    return {
        "pass_at_1_greedy": "pass@1 greedy",
        "pass_at_1_greedy_seen": "  seen templates",
        **unseen,
        **novelties,
        **{f"{BY_OPERATIONS}{n}": f"  {n} operation{'s' * (n != '1')}" for n in lengths},
        "siblings_passed": "  with siblings",
        **{f"pass_at_{k}": f"pass@{k} sampled" for k in params.evaluation.ks},
        **{f"maj_at_{k}": f"maj@{k} sampled" for k in params.evaluation.ks if k > 1},
    }


def _notes(layout: Layout, params: Params, record: RunRecord) -> list[str]:
    evaluation, outcomes = params.evaluation, record.outcomes["after"]
    notes = [
        f"pass@k and maj@k without bias from {evaluation.samples} samples at temperature {evaluation.temperature:g}; "
        f"in brackets intervals of {100 * CONFIDENCE:g} % over the problems: bootstrap, and Wilson's for "
        f"the levels of fewer than {WILSON_BELOW}."
    ]
    notes += evaluation_remarks(record.numbers("evaluate@after"), evaluation.ks)
    return [*notes, *_hardest(layout, outcomes)]


def _hardest(layout: Layout, outcomes: list[ProblemOutcome]) -> list[str]:
    """The training templates that are solved least often, if the problems have templates."""
    rows = hardest(by_template(outcomes), MAX_ROWS)
    if not rows:
        return []
    named = ", ".join(f"{row.template} {row.sampled:.2f}" for row in rows)
    return [
        f"Hardest templates, of those seen, pass@1 sampled: {named}; all: {_relative(layout.by_template('after'))}."
    ]


def _rounds(params: Params, record: RunRecord) -> Table:
    compared = ["dev pass@1"] if params.evaluation.every else []
    names = ("samples", "mean reward", "deviation", "accumulated", "solved", "kept")
    table = make_table("round", *names, *compared, right=True)
    for number in range(1, record.rounds + 1):
        reward, selected = record.numbers(f"reward@{number}"), record.numbers(f"select@{number}")
        table.add_row(
            str(number),
            f"{reward['epoch/samples']:.0f}",
            f"{reward['epoch/mean_reward']:.3f}",
            f"{reward['epoch/reward_std']:.3f}",
            f"{reward['epoch/accumulated_reward']:.1f}",
            f"{100 * reward['solved_share']:.0f} %",
            f"{100 * selected['selected_share']:.0f} %",
            *[_dev(record, number) for _ in compared],
        )
    return table


def _reward_histograms(record: RunRecord) -> list[str]:
    """The histograms of the rewards in the first and the last round, as lines of bars."""
    lines = []
    for number in dict.fromkeys((1, record.rounds)):
        bins = record.rewards[str(number)]
        title = f"rewards of round {number:<{len(str(record.rounds))}}"
        drawn = _bars([bin.completions for bin in bins])
        lines.append(f"{title}  {bins[0].low:.3g} {drawn} {bins[-1].high:.3g}")
    return lines


def _terms(record: RunRecord) -> list[str]:
    """The mean of each reward term in the first and the last round, if there are several."""
    first, last = (record.numbers(f"reward@{number}") for number in (1, record.rounds))
    names = [name.removesuffix("/mean") for name in first if name.endswith("/mean") and name in last]
    names = [name for name in names if f"{name}/std" in last]
    means = [f"{name} {first[f'{name}/mean']:.3f} → {last[f'{name}/mean']:.3f}" for name in names]
    return [f"Terms of the reward, round 1 → {record.rounds}: {', '.join(means)}."] if len(means) > 1 else []


def _dev(record: RunRecord, number: int) -> str:
    metrics = record.numbers(f"validate@{number}")
    return f"{metrics['pass_at_1']:.3f}" if metrics else ""


def _best(layout: Layout, params: Params) -> list[str]:
    """The round whose policy was chosen, and remarks on a plateau, if rounds were compared."""
    if not params.evaluation.every:
        return []
    choice = read_json(layout.best, Choice)
    standings = read_jsonl(layout.standings(params.rounds.last), Standing)
    remarks = dev_plateau_remarks(standings, params.seed)
    return [f"Best: {choice.reason}.", *(f"{remark}." for remark in remarks)]


def _reward_remarks(record: RunRecord) -> list[str]:
    """Remarks on rewards without a signal and on a collapse, by round, on a plateau and on the deviation."""
    rounds = {n: record.numbers(f"reward@{n}") for n in range(1, record.rounds + 1)}
    by_remark: dict[str, list[str]] = {}
    for number, numbers in rounds.items():
        signs = record.numbers(f"collect@{number}") | record.numbers(f"update@{number}")
        for remark in (*reward_remarks(numbers), *collapse_remarks(signs)):
            by_remark.setdefault(remark, []).append(str(number))
    by_round = [f"Round {', '.join(numbers)}: {remark}" for remark, numbers in by_remark.items()]
    of_rounds = (*reward_plateau_remarks(rounds), *spread_remarks(rounds))
    return [*by_round, *(f"{remark}." for remark in of_rounds)]


def _fdr_control(record: RunRecord) -> list[str]:
    """The share of samples that validation rejects, if FDR control is on."""
    rounds = [record.numbers(f"select@{number}") for number in range(1, record.rounds + 1)]
    shares = [100 * selected["fault_share"] for selected in rounds if "fault_share" in selected]
    if any(shares):
        found = ", ".join(f"{share:.0f}" for share in shares)
        return [f"Validation finds fault with the rewards of samples, which were dropped; % by round: {found}."]
    if not shares:
        return []
    measured = [100 * selected["measured_share"] for selected in rounds if "measured_share" in selected]
    needed = f"; % of the samples that were measured, by round: {', '.join(f'{share:.0f}' for share in measured)}"
    return [
        "Validation finds no fault with the rewards: no sample was dropped by its influence"
        f"{needed if any(share < 100 for share in measured) else ''}."
    ]


def _curriculum(record: RunRecord) -> list[str]:
    """The train problems that were searched in each round, and why not all were."""
    rounds = [record.numbers(f"search@{number}") for number in range(1, record.rounds + 1)]
    if not any(numbers.get("left_out") for numbers in rounds):
        return []
    searched, left_out = (", ".join(f"{r[name]:.0f}" for r in rounds) for name in ("problems", "left_out"))
    return [
        f"Train problems searched, by round: {searched}; left out, beyond curriculum.problems or groups: {left_out}."
    ]


def _support(search: Mapping[str, float]) -> list[str]:
    """Problems of the last round that only one answer supports, if not all have siblings with other answers."""
    alone = search.get("solved_by_one_answer", 0)
    if not alone:
        return []
    return [
        f"Train, last round: {alone:.0f} of {search['solved']:.0f} solved problems rest on one answer alone: "
        "no siblings with other answers, and no second workflow that behaves alike."
    ]


def _print_influence(layout: Layout, params: Params, record: RunRecord, console: Console) -> None:
    """Print the influence of the last round in which it was measured, if any."""
    number = record.influence_round
    extremes = read_influence_extremes(layout, number) if number else None
    if number is None or extremes is None:
        return
    console.print(_histogram_line(record.influence), highlight=False)
    console.print()
    console.print(_extremes(extremes, number))
    console.print(_influence_files(layout, params, number), style="dim", highlight=False)
    console.print()


def _histogram_line(histogram: list[Bar]) -> str:
    """The histogram as a line of bars with 0 in the middle; the first and last bar include all values beyond."""
    counts = [bin.selected + bin.not_selected for bin in histogram]
    bars, half = _bars(counts), len(counts) // 2
    below, above = histogram[0].high, histogram[-1].low
    return f"influence of {sum(counts)} samples  < {below:.1e} {bars[:half]}│{bars[half:]} ≥ {above:+.1e}"


def _bars(counts: Sequence[int]) -> str:
    """A character for each count, as high as its share of the largest."""
    return "".join(BARS[ceil(count / max(max(counts), 1) * (len(BARS) - 1))] for count in counts)


def _extremes(extremes: InfluenceExtremes, number: int) -> Table:
    """The most and least influential workflows."""
    table = make_table(f"round {number}", "influence", "reward", "kept", "workflow")
    for row in (*extremes.most[:MAX_ROWS], *extremes.least[:MAX_ROWS]):
        reward = "" if row.reward is None else f"{row.reward:.3f}"
        kept = "yes" if row.selected else "no"
        code = Text(line_of(row.code, CODE_WIDTH))  # Text: `n[a]` is not markup
        table.add_row(f"{row.end} {row.rank}", f"{row.influence:+.1e}", reward, kept, code)
    return table


def _influence_files(layout: Layout, params: Params, number: int) -> str:
    tables = f"; the {COUNT} most and {COUNT} least with their code: MLflow, select@{number}, influence.json"
    return f"Of every sample: {_relative(layout.selection(number))}{tables if params.machine.tracking.uri else ''}."


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
    last = params.rounds.last
    places = {
        "policy": _relative(layout.run_policy),
        "workflows": _relative(layout.workflows(last)),
        "tree": _relative(layout.tree(last)),
        "evaluation": _relative(layout.evaluation("after")),
        **({"page": _relative(layout.page)} if layout.page.exists() else {}),
        "champion": _relative(layout.champion) if layout.champion.exists() else "none yet",
        "MLflow": redacted(params.machine.tracking.uri) or "off (machine.tracking.uri is empty)",
        "pages": "graft ui",
    }
    table = Table.grid(padding=(0, 2))
    for name, place in places.items():
        table.add_row(name, place)
    return table


def _relative(path: Path) -> str:
    return os.path.relpath(path)
