"""Laws of the front of accuracy and efficiency."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from flows.reports.comparison import Side, make_sides
from flows.reports.html import content
from flows.reports.html.chart import Dot
from flows.reports.html.content import pareto_front
from flows.reports.html.page import render_page
from flows.reports.run_record import RunRecord, read_run_record
from tests.support import finished_run

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(PAIRS)
def test_who_is_on_the_front_is_beaten_by_none_and_all_others_by_one_on_it(points: list[tuple[int, int]]) -> None:
    policies = [Dot(str(place), 0, cost, accuracy) for place, (accuracy, cost) in enumerate(points)]

    def beats(one: Dot, other: Dot) -> bool:
        return one.y >= other.y and one.x <= other.x and (one.x, one.y) != (other.x, other.y)

    front = pareto_front(policies)
    assert front
    for policy in policies:
        beaten = any(beats(other, policy) for other in policies)
        assert (policy in front) != beaten
        assert policy in front or any(beats(other, policy) for other in front)


def with_costs(record: RunRecord, **costs: dict[str, float]) -> RunRecord:
    """`before` and `after`: metrics to add to their evaluations."""
    metrics = {f"evaluate@{when}": record.metrics[f"evaluate@{when}"] | own for when, own in costs.items()}
    return record.model_copy(update={"metrics": record.metrics | metrics})


def test_a_policy_that_is_better_and_cheaper_is_alone_on_the_front(tmp_path: Path) -> None:
    known = read_run_record(finished_run.write(tmp_path))
    cheap = with_costs(known, before={"operations_per_sample": 3.0}, after={"operations_per_sample": 2.0})
    assert joined([Side("A", "a", cheap)]) == ["after"]
    dear = with_costs(known, before={"operations_per_sample": 3.0}, after={"operations_per_sample": 4.0})
    assert joined([Side("A", "a", dear)]) == ["before", "after"]
    (chart,) = content.efficiency(make_sides([("a", cheap), ("b", dear)]))
    assert re.findall(r"<title>(.*?): ", chart.svg) == ["A, after", "A, before", "B, before", "B, after"]


def joined(sides: list[Side]) -> list[str]:
    """The names of the policies that the line of the chart goes through, the cheapest first."""
    (chart,) = content.efficiency(sides)
    (line,) = re.findall(r'points="(.*?)"', chart.svg)
    places = {f"{x},{y}": name for x, y, name in re.findall(r'cx="(.*?)" cy="(.*?)".*?<title>(.*?): ', chart.svg)}
    return [places[place] for place in line.split()]


def test_the_page_shows_the_front_where_costs_were_measured(tmp_path: Path) -> None:
    known = read_run_record(finished_run.write(tmp_path))
    assert content.efficiency(make_sides([("a", known)])) == []
    assert "Accuracy and efficiency" not in render_page(make_sides([("a", known)]))
    costs = {"operations_per_sample": 2.0, "cost_per_1000_samples": 1.5}
    sides = make_sides([("a", with_costs(known, before=costs, after={"operations_per_sample": 2.5}))])
    (chart,) = content.efficiency(sides)  # dollars were not measured after the run
    assert chart.title == "operations"
    assert chart.svg.count("<circle") == 2
    assert "after: " in chart.svg
    assert "Accuracy and efficiency" in render_page(sides)
    free = {when: {"cost_per_1000_samples": 0.0} for when in ("before", "after")}
    (chart,) = content.efficiency(make_sides([("a", with_costs(known, **free))]))
    assert chart.title == "dollars per 1,000"
    assert "nan" not in chart.svg
