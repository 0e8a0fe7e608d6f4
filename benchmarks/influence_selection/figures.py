"""Tables and figures of `benchmarks.selection` from the results of its runs."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.influence_selection.conditions import Condition
from benchmarks.influence_selection.exact_rewards import Curves, exact_speedup
from benchmarks.influence_selection.variants import ALL, ALONE, CHOSEN, INFLUENCE, NONE, ORACLE, sized
from benchmarks.support.short_runs import Figures
from benchmarks.support.student_interval import interval

if TYPE_CHECKING:
    from rich.table import Table

Runs = dict[tuple[Condition, str], dict[int, Figures]]
"""(condition, variant) → the runs by seed."""

SETTLED: tuple[Condition, ...] = ("flipped", "biased", "answer_only")
"""The conditions of the figures on few trusted completions."""

FEW, CLOSE = (16, 64), 256


def paired(one: Mapping[int, Figures], other: Mapping[int, Figures]) -> list[float]:
    """The differences in `final` of the seeds that both have."""
    return [one[seed]["final"] - other[seed]["final"] for seed in sorted(one.keys() & other.keys())]


def table(condition: Condition, runs: Runs) -> "Table":
    """A row a variant: its mean, and its differences to no selection, to the same trusted alone and to the oracle."""
    from rich.table import Table

    made = Table(title=condition, title_justify="left")
    columns = ("", "seeds", "final", "- no selection", "- trusted alone", "- oracle", "kept", "steps", "CPU s")
    for column in columns:
        made.add_column(column, justify="right" if column else "left")
    for name in ALL:
        own = runs.get((condition, name))
        if not own:
            continue
        learned = list(own.values())
        others = (NONE, sized(ALONE, ALL[name].trusted or 0), ORACLE)
        made.add_row(
            name,
            str(len(learned)),
            f"{fmean(one['final'] for one in learned):.3f}",
            *("" if name == other else _cell(own, runs.get((condition, other), {})) for other in others),
            f"{fmean(one['kept'] for one in learned):.0%}",
            f"{fmean(one['steps'] for one in learned):.0f}",
            f"{fmean(one['seconds'] for one in learned):.0f}",
        )
    return made


def _cell(own: Mapping[int, Figures], other: Mapping[int, Figures]) -> str:
    differences = paired(own, other)
    if not differences:
        return ""
    mean, half = interval(differences)
    return f"{mean:+.3f} ± {half:.3f}"


def figures(
    runs: Runs, aucs: Mapping[int, float], seeds: Sequence[int], exact: Curves
) -> tuple[dict[str, float | None], list[str]]:
    """The figures of the last line over these seeds, None where a run is missing, and a note on each of those.

    `exact`: the curves of exact_rewards.py, of whatever seeds there are.
    """

    def runs_of(condition: Condition, name: str) -> dict[int, Figures]:
        found = runs.get((condition, name), {})
        if lacking := [seed for seed in seeds if seed not in found]:
            raise LookupError(f"no run of {name} with {condition} rewards for seeds {', '.join(map(str, lacking))}")
        return {seed: found[seed] for seed in seeds}

    def gain(condition: Condition, name: str, other: str) -> float:
        return fmean(paired(runs_of(condition, name), runs_of(condition, other)))

    def over_conditions(choose: Callable[[list[float]], float], trusted: Sequence[int], other: str | None) -> float:
        return choose(
            [gain(condition, sized(INFLUENCE, n), other or sized(ALONE, n)) for condition in SETTLED for n in trusted]
        )

    def recovered() -> float:
        gap = gain("answer_only", ORACLE, NONE)
        if gap < 0.05:
            raise LookupError("the oracle gains less than 0.05 there, which is no trial")
        return gain("answer_only", CHOSEN, NONE) / gap

    def biased_gap() -> float:
        if gain("biased", ORACLE, NONE) < 0.1:
            raise LookupError("the oracle gains less than 0.1 there, which is no trial")
        return gain("biased", ORACLE, CHOSEN)

    def auc_of(trusted: int) -> float:
        if trusted not in aucs:
            raise LookupError("measured with --auc")
        return aucs[trusted]

    wanted: dict[str, Callable[[], float]] = {
        "clean_gain": lambda: gain("clean", CHOSEN, NONE),
        "flipped_auc_128": lambda: auc_of(128),
        "flipped_auc_1024": lambda: auc_of(1024),
        "flipped_gain": lambda: gain("flipped", CHOSEN, NONE),
        "answer_only_gap": lambda: gain("answer_only", ORACLE, NONE),
        "answer_only_recovered": recovered,
        "biased_lost": lambda: gain("biased", ORACLE, NONE),
        "biased_gap_to_oracle": biased_gap,
        "few_trusted_gain_over_trusted_alone": lambda: over_conditions(min, FEW, None),
        "few_trusted_gain_over_none": lambda: over_conditions(min, FEW, NONE),
        "gap_to_oracle_256": lambda: -over_conditions(min, (CLOSE,), ORACLE),
        "exact_speedup": lambda: exact_speedup(exact),
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
