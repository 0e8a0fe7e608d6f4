"""Laws of the front of accuracy and efficiency."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from flows.reports.comparison import Side, make_sides
from flows.reports.front import efficiency_front, pareto_front
from flows.reports.html import content
from flows.reports.html.page import render_page
from flows.reports.run_record import RunRecord, read_run_record
from tests.support import finished_run

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(PAIRS)
def test_who_is_on_the_front_is_beaten_by_none_and_all_others_by_one_on_it(points: list[tuple[int, int]]) -> None:
    def beats(one: int, other: int) -> bool:
        (a, c), (accuracy, cost) = points[one], points[other]
        return a >= accuracy and c <= cost and points[one] != points[other]

    front = pareto_front(points)
    assert front
    for place in range(len(points)):
        beaten = any(beats(other, place) for other in range(len(points)))
        assert (place in front) != beaten
        assert place in front or any(beats(other, place) for other in front)


def with_costs(record: RunRecord, **costs: dict[str, float]) -> RunRecord:
    """`before` and `after`: metrics to add to their evaluations."""
    metrics = {f"evaluate@{when}": record.metrics[f"evaluate@{when}"] | own for when, own in costs.items()}
    return record.model_copy(update={"metrics": record.metrics | metrics})


def test_a_policy_that_is_better_and_cheaper_is_alone_on_the_front(tmp_path: Path) -> None:
    known = read_run_record(finished_run.write(tmp_path))
    cheap = with_costs(known, before={"operations_per_sample": 3.0}, after={"operations_per_sample": 2.0})
    front = efficiency_front([Side("A", "a", cheap)])
    assert front is not None
    assert (front.title, front.best) == ("operations", {"after"})
    assert [point.name for point in front.points] == ["after", "before"]
    dear = with_costs(known, before={"operations_per_sample": 3.0}, after={"operations_per_sample": 4.0})
    front = efficiency_front([Side("A", "a", dear)])
    assert front is not None
    assert front.best == {"before", "after"}
    named = efficiency_front(make_sides([("a", cheap), ("b", dear)]))
    assert named is not None
    assert [point.name for point in named.points] == ["A, after", "A, before", "B, before", "B, after"]


def test_the_page_shows_the_front_where_costs_were_measured(tmp_path: Path) -> None:
    known = read_run_record(finished_run.write(tmp_path))
    assert efficiency_front(make_sides([("a", known)])) is None
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
