"""Tables and figures of `benchmarks.selection` from the results of its runs."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.influence_selection.audited_rounds import INVERTED
from benchmarks.influence_selection.conditions import Condition
from benchmarks.influence_selection.variants import ALONE, AUDIT, MAJORITY, NONE, ORACLE, VARIANTS
from benchmarks.support.short_runs import Figures
from benchmarks.support.student_interval import interval
from tasks.params.fields import SelectionRule

if TYPE_CHECKING:
    from rich.table import Table

BySeed = dict[int, Figures]

Runs = dict[tuple[Condition, str], BySeed]
"""(condition, variant) → the runs by seed."""

CompleteRuns = dict[SelectionRule, BySeed]
"""`influence.selection` → the complete runs by seed."""

ERRING: tuple[Condition, ...] = ("flipped", "biased", "answer_only")
"""The conditions whose rewards err."""


def paired(one: Mapping[int, Figures], other: Mapping[int, Figures]) -> list[float]:
    """The differences in `final` of the seeds that both have."""
    return [one[seed]["final"] - other[seed]["final"] for seed in sorted(one.keys() & other.keys())]


def training_table(condition: Condition, runs: Runs) -> "Table":
    """A row a variant: its mean, and its differences to no selection, to 512 trusted alone and to the oracle."""
    made = _table(
        condition, "", "seeds", "final", "- no selection", "- 512 alone", "- oracle", "err", "kept", "steps", "CPU s"
    )
    for name in VARIANTS:
        own = runs.get((condition, name))
        if not own:
            continue
        learned = list(own.values())
        made.add_row(
            name,
            str(len(learned)),
            f"{fmean(one['final'] for one in learned):.3f}",
            *("" if name == other else _cell(own, runs.get((condition, other), {})) for other in (NONE, ALONE, ORACLE)),
            f"{sum(one['err'] for one in learned):.0f}" if name == AUDIT else "",
            f"{fmean(one['kept'] for one in learned):.0%}",
            f"{fmean(one['steps'] for one in learned):.0f}",
            f"{fmean(one['seconds'] for one in learned):.0f}",
        )
    return made


def answers_table(rounds: BySeed) -> "Table":
    """A row a share of inverted rewards: how often the audit gives each answer, and the runs that it is noticed in."""
    made = _table("rounds of runs as shipped", "inverted", "audits", "right", "unclear", "err", "runs noticed")
    for share in ("exact", *map(str, INVERTED)):
        counts = [
            sum(int(own.get(f"{share}_{answer}", 0)) for own in rounds.values())
            for answer in ("right", "unclear", "err")
        ]
        noticed = "" if share == "exact" else f"{sum(own[f'detected_{share}'] for own in rounds.values()):.0f}"
        made.add_row(share if share == "exact" else f"{share} %", str(sum(counts)), *map(str, counts), noticed)
    return made


def figures(
    runs: Runs, rounds: BySeed, complete: CompleteRuns, seeds: Sequence[int]
) -> tuple[dict[str, float | None], list[str]]:
    """The figures of the last line over these seeds, None where a run is missing, and a note on each of those.

    `rounds`: the answers in audited rounds.
    """

    def mean(condition: Condition, name: str) -> float:
        own = _of(runs.get((condition, name), {}), seeds, f"run of {name} with {condition} rewards")
        return fmean(one["final"] for one in own)

    def gain(condition: Condition) -> float:
        return mean(condition, AUDIT) - mean(condition, NONE)

    def gap(condition: Condition) -> float:
        return max(mean(condition, MAJORITY), mean(condition, ALONE)) - mean(condition, AUDIT)

    def share(name: str, total: str) -> float:
        own = _of(rounds, seeds, "audited rounds")
        return sum(one.get(name, 0) for one in own) / sum(one[total] for one in own)

    def complete_runs(selection: SelectionRule, seeds: Sequence[int]) -> list[Figures]:
        return _of(complete.get(selection, {}), seeds, f"complete run of {selection} (--complete-runs)")

    def seconds_share() -> float:
        (audit,), (none,) = (complete_runs(selection, seeds[:1]) for selection in ("audit", "none"))
        return (audit["select_seconds"] - none["select_seconds"]) / audit["seconds"]

    def clean_loss(name: str) -> float:
        audit, positive = (fmean(one[name] for one in complete_runs(own, seeds)) for own in ("audit", "positive"))
        return audit - positive

    wanted: dict[str, Callable[[], float]] = {
        "clean_gain": lambda: gain("clean"),
        "flipped_gain": lambda: gain("flipped"),
        "biased_gain": lambda: gain("biased"),
        "answer_only_gain": lambda: gain("answer_only"),
        "gap_to_best": lambda: max(map(gap, ERRING)),
        "flipped_gap": lambda: gap("flipped"),
        "biased_gap": lambda: gap("biased"),
        "answer_only_gap": lambda: gap("answer_only"),
        "false_alarm_share": lambda: share("exact_err", "exact"),
        "detected_10": lambda: share("detected_10", "runs"),
        "detected_30": lambda: share("detected_30", "runs"),
        "audit_seconds_share": seconds_share,
        "positive_clean_loss_greedy": lambda: clean_loss("greedy"),
        "positive_clean_loss_sampled": lambda: clean_loss("sampled"),
    }
    numbers: dict[str, float | None] = {}
    notes = []
    for name, compute in wanted.items():
        try:
            numbers[name] = round(compute(), 4)
        except LookupError as reason:
            numbers[name] = None
            notes.append(f"{name}: {reason.args[0]}")
    return numbers, notes


def _of(own: BySeed, seeds: Sequence[int], what: str) -> list[Figures]:
    if lacking := [seed for seed in seeds if seed not in own]:
        raise LookupError(f"no {what} for seeds {', '.join(map(str, lacking))}")
    return [own[seed] for seed in seeds]


def _cell(own: Mapping[int, Figures], other: Mapping[int, Figures]) -> str:
    differences = paired(own, other)
    if not differences:
        return ""
    mean, half = interval(differences)
    return f"{mean:+.3f} ± {half:.3f}"


def _table(title: str, *columns: str) -> "Table":
    from rich.table import Table

    made = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        made.add_column(column, justify="right" if place else "left")
    return made
