"""The charts and rows of the page, from the records of runs."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from markupsafe import Markup

from flows.reports.comparison import Side, level_with_interval, mean_titles, title_of
from flows.reports.html.chart import Curve, Point, Stack, bars, curves
from flows.reports.influence_extremes import InfluenceExample
from flows.reports.run_record import Example, GreedyCompletion, RunRecord
from tasks.environments.measures import PREFIX
from tasks.evaluate.environment_measures import ENDS

MAX_CARDS = 10
"""Test problems that are shown with their completions."""

MAX_CHARTS = 100
"""Charts of a section; a run of others may have any number of metrics."""


class Chart(NamedTuple):
    """A titled picture."""

    title: str
    svg: Markup


class InfluenceLabel(NamedTuple):
    """What a value is, in a title and, shorter, next to an axis."""

    title: str
    axis: str


INFLUENCE = {
    False: InfluenceLabel(
        "decrease of the validation loss by a gradient step on the sample alone, per unit of learning rate",
        "validation loss decrease per unit of learning rate",
    ),
    True: InfluenceLabel(
        "agreement of the sample with similar validation completions, without a unit",
        "agreement with similar validation completions",
    ),
}
"""The labels of an influence, by whether `influence.similarity` is local."""


class Extremes(NamedTuple):
    """Samples at one end of a round's influences."""

    title: str
    samples: Sequence[InfluenceExample]


class Card(NamedTuple):
    """A test problem and the completions of each run's policies, by the policies' names."""

    example: Example
    cells: dict[str, GreedyCompletion]


def pass_at_k(sides: Sequence[Side]) -> list[Chart]:
    """A chart for each pass@k: before and after on the test problems; dashed, the rounds on the dev problems, and the
    samples that each round began with on the train problems."""
    return [
        Chart(title_of(name), curves(name, drawn, (0.0, 1.0)))
        for name, drawn in islice(_level_curves(sides).items(), MAX_CHARTS)
    ]


def rewards(sides: Sequence[Side]) -> list[Chart]:
    """A chart for the reward, its deviation and each of its terms by round; then histograms.

    Of the reward and its terms the mean over the completions is drawn; histograms are of each run's first and last
    round.
    """
    rounds = {side.letter: list(_reward_means(side.record)) for side in sides}
    names = dict.fromkeys(name for series in rounds.values() for _, numbers in series for name in numbers)

    def term(side: Side, name: str) -> Iterator[tuple[float, float]]:
        return ((round, series[name]) for round, series in rounds[side.letter] if name in series)

    means = [Chart(name, curves(f"{name} by round", _curves(sides, name, term))) for name in islice(names, MAX_CHARTS)]
    return means + [chart for side in sides for chart in _reward_histograms(side, _of(sides, side))]


def _reward_histograms(side: Side, name: str) -> list[Chart]:
    histograms = side.record.rewards
    return [
        Chart(
            f"{name}rewards of round {number}",
            bars(
                f"{name}rewards of round {number}",
                [Stack(bin.low, bin.high, [bin.completions]) for bin in histograms[number]],
                "reward",
                {"kept": "completions"},
            ),
        )
        for number in dict.fromkeys(("1", str(side.record.rounds)))
        if number in histograms
    ]


def influence(sides: Sequence[Side]) -> list[Chart]:
    """The histogram of each run that measured influence."""
    measured = [(_of(sides, side), side.record) for side in sides if side.record.influence]
    return [
        Chart(
            f"{name}round {record.influence_round}: {INFLUENCE[record.is_influence_local].title}",
            bars(
                f"{name}influence of round {record.influence_round}",
                [Stack(bar.low, bar.high, [bar.selected, bar.not_selected]) for bar in record.influence],
                INFLUENCE[record.is_influence_local].axis,
                {"kept": "kept", "left": "left out"},
            ),
        )
        for name, record in measured
    ]


def selections(sides: Sequence[Side]) -> list[str]:
    """What decided the selection of each run."""
    lines = [
        (f"{side.letter}: " if len(sides) > 1 else "", line) for side in sides for line in side.record.selection_lines
    ]
    return [f"{name}{line}" for name, line in lines]


def extremes(sides: Sequence[Side]) -> list[Extremes]:
    """The samples with the highest and with the lowest influence of each run that measured it."""
    ends = []
    for side in sides:
        listed = side.record.extremes
        middle = (len(listed) + 1) // 2
        for title, samples in (("highest", listed[:middle]), ("lowest", listed[middle:])):
            if samples:
                ends.append(
                    Extremes(f"{_of(sides, side)}{title} influence of round {side.record.influence_round}", samples)
                )
    return ends


def updates(sides: Sequence[Side]) -> list[Chart]:
    """Curves of the steps of the updates: KL, entropy, with PPO explained variance. A round's fill its width."""
    titles = {
        "kl": "KL to the reference",
        "entropy": "entropy of the tokens",
        "explained_variance": "share of the returns' variance that the values explain",
    }
    drawn = {title: _curves(sides, name, _steps) for name, title in titles.items()}
    return [Chart(title, curves(f"{title} by round", lines)) for title, lines in drawn.items() if lines]


def measure_rows(sides: Sequence[Side]) -> list[tuple[str, str, str]]:
    """Rows of each run for the cost of a sample and the environment's own measures: title, mean before, mean after."""
    rows = []
    for side in sides:
        before, after = (side.record.metrics.get(f"evaluate@{when}", {}) for when in ("before", "after"))
        names = (name for name in after if name.startswith(PREFIX) and not name.endswith(ENDS))
        for name, title in ((name, title) for name, title in mean_titles(names).items() if name in after):
            rows.append((_of(sides, side) + title, level_with_interval(before, name), level_with_interval(after, name)))
    return rows


def cards(sides: Sequence[Side]) -> list[Card]:
    """MAX_CARDS test problems with the greedy completions, before and after, of each run that tested them.

    Taken in turn from those that became right, became wrong, stayed wrong and stayed right, each in the order of the
    test file. For several runs, the first and the last run, both after, take the place of before and after.
    """
    by_run = [{example.problem_id: example for example in side.record.examples} for side in sides]
    shared = [e for e in sides[0].record.examples if all(e.problem_id in examples for examples in by_run)]
    groups: dict[tuple[bool, bool], list[Card]] = {
        key: [] for key in ((False, True), (True, False), (False, False), (True, True))
    }
    for example in shared:
        tested = [examples[example.problem_id] for examples in by_run]
        first = tested[0].before if len(tested) == 1 else tested[0].after
        groups[first.right, tested[-1].after.right].append(Card(example, _cells(sides, tested)))
    return [card for card in chain(*zip_longest(*groups.values())) if card][:MAX_CARDS]


def levels(numbers: Mapping[str, float]) -> dict[str, tuple[float, float, float]]:
    """The pass@k among the numbers of an evaluation, each with the ends of its interval; the greedy one first."""
    names = [name for name in numbers if re.fullmatch(r"pass_at_[0-9]{1,9}(_greedy)?", name)]
    return {
        name: (numbers[name], numbers.get(f"{name}_low", numbers[name]), numbers.get(f"{name}_high", numbers[name]))
        for name in sorted(names, key=lambda name: (not name.endswith("greedy"), int(name.split("_")[2])))
    }


def terms(numbers: Mapping[str, float]) -> dict[str, float]:
    """The means among the metrics of a reward stage: the reward, its deviation, then its terms."""
    titles = {"reward": "epoch/mean_reward", "deviation of the reward": "epoch/reward_std"}
    rewards = {title: numbers[name] for title, name in titles.items() if name in numbers}
    return rewards | {name.removesuffix("/mean"): value for name, value in numbers.items() if name.endswith("/mean")}


def _evaluations(record: RunRecord) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Stage, round and metrics of every evaluation; `before` is round 0, `after` the last.

    The completions that a stage `reward` measured are of the policy of the round before its own.
    """
    places = {"before": 0, "after": record.rounds}
    for stage_id, numbers in record.metrics.items():
        stage, _, part = stage_id.partition("@")
        if part in places or re.fullmatch("[0-9]{1,9}", part):
            yield stage, places[part] if part in places else int(part) - (stage == "reward"), numbers


def _level_curves(sides: Sequence[Side]) -> dict[str, list[Curve]]:
    """The curves of each pass@k."""
    by_name: dict[str, dict[tuple[int, str, bool], list[Point]]] = {}
    for colour, side in enumerate(sides):
        for stage, round, numbers in _evaluations(side.record):
            title = {"evaluate": "test", "reward": "train"}.get(stage, stage)
            key = (colour, f"{_of(sides, side)}{title}", stage != "evaluate")
            for name, level in levels(numbers).items():
                by_name.setdefault(name, {}).setdefault(key, []).append(Point(float(round), *level))
    return {
        name: [Curve(title, colour, sorted(points), dashed) for (colour, title, dashed), points in by_curve.items()]
        for name, by_curve in by_name.items()
    }


def _reward_means(record: RunRecord) -> Iterator[tuple[float, dict[str, float]]]:
    """Each round with the means of its rewards."""
    for round in range(1, record.rounds + 1):
        if f"reward@{round}" in record.metrics:
            yield float(round), terms(record.metrics[f"reward@{round}"])


def _steps(side: Side, name: str) -> Iterator[tuple[float, float]]:
    for round in range(1, side.record.rounds + 1):
        values = side.record.steps.get(str(round), {}).get(name, [])
        for i, value in enumerate(values, start=1):
            if value is not None:
                yield round - 1 + i / len(values), value


def _curves(
    sides: Sequence[Side], name: str, points: Callable[[Side, str], Iterator[tuple[float, float]]]
) -> list[Curve]:
    """A curve of each run that has `points` of this name."""
    drawn = [
        Curve(f"{_of(sides, side)}{name}", colour, [Point(x, y, y, y) for x, y in points(side, name)])
        for colour, side in enumerate(sides)
    ]
    return [curve for curve in drawn if curve.points]


def _cells(sides: Sequence[Side], examples: Sequence[Example]) -> dict[str, GreedyCompletion]:
    """The completions of each run; runs that started from the same policy share one `before`."""
    same = len({example.before for example in examples}) == 1
    cells = {}
    for side, example in zip(sides, examples, strict=True):
        name = _of(sides, side)
        cells["before" if same else f"{name}before"] = example.before
        cells[f"{name}after"] = example.after
    return cells


def _of(sides: Sequence[Side], side: Side) -> str:
    """`A, ` if there are several runs."""
    return f"{side.letter}, " if len(sides) > 1 else ""
