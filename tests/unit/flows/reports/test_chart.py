"""Charts: each number is drawn at its place, whatever the numbers are."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.reports.html import chart
from flows.reports.html.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Curve, Point, Stack, curves

SIZES = st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 6))


def curve(points: list[tuple[float, float]], name: str = "a") -> Curve:
    return Curve(name, 0, [Point(x, y, y - 0.1, y + 0.1) for x, y in points])


def places(svg: str, tag: str) -> list[list[tuple[float, float]]]:
    found = [e.attrib["points"] for e in ElementTree.fromstring(svg).iter(tag)]
    return [[tuple(map(float, pair.split(","))) for pair in text.split()] for text in found]  # type: ignore[misc]


def test_a_line_and_its_band_lie_where_their_numbers_are() -> None:
    svg = curves("t", [curve([(0, 0.25), (2, 0.75)])], (0.0, 1.0))
    height, width = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - RIGHT
    assert places(svg, "polyline") == [[(LEFT, TOP + 0.75 * height), (LEFT + width, TOP + 0.25 * height)]]
    (band,) = places(svg, "polygon")
    assert [(HEIGHT - BOTTOM - y) / height for _, y in band] == pytest.approx([0.35, 0.85, 0.65, 0.15], abs=1e-3)
    assert re.findall(r"<title>(.*?)</title>", svg) == ["a: 0.25 (0.15 to 0.35) at 0", "a: 0.75 (0.65 to 0.85) at 2"]


@given(st.lists(st.tuples(st.integers(0, 50), SIZES), min_size=1, max_size=20, unique_by=lambda pair: pair[0]))
def test_nothing_is_drawn_outside(points: list[tuple[int, float]]) -> None:
    svg = curves("t", [curve([(float(x), y) for x, y in sorted(points)])])
    for x, y in (place for tag in ("polyline", "polygon") for line in places(svg, tag) for place in line):
        assert LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1
        assert TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1
    assert "nan" not in svg


def test_bars_are_stacked_and_as_high_as_their_counts() -> None:
    rows = [(-9, -1, 0, 4), (-1, 0, 1, 3), (0, 1, 8, 0), (1, 9, 2, 0)]
    bins = [Stack(low, high, counts) for low, high, *counts in rows]
    root = ElementTree.fromstring(chart.bars("t", bins, "x", {"kept": "kept", "left": "left out"}))
    height = HEIGHT - TOP - BOTTOM
    rects = [(e.attrib["class"], round(float(e.attrib["height"]) * 8 / height, 1)) for e in root.iter("rect")]
    assert rects == [("bar left", 4), ("bar kept", 1), ("bar left", 3), ("bar kept", 8), ("bar kept", 2)]
    floor = {float(e.attrib["y"]) + float(e.attrib["height"]) for e in root.iter("rect")}
    assert min(floor) >= HEIGHT - BOTTOM - height / 8 - 0.2
    assert next(e for e in root.iter("title")).text == "-9 to -1: 0 kept, 4 left out"


@given(low=SIZES, width=st.floats(1e-3, 1e6))
def test_axes_are_marked_at_a_few_round_numbers(low: float, width: float) -> None:
    found = chart.steps_between(low, low + width)
    assert 2 <= len(found) <= 7
    slack = 1e-6 * max(abs(low), width)
    assert low - slack <= found[0] <= found[-1] <= low + width + slack


def test_names_are_escaped() -> None:
    svg = curves('<b>&"', [curve([(1, 0.5)], "<script>")], (0.0, 1.0))
    assert ElementTree.fromstring(svg).attrib["aria-label"] == '<b>&"'
    assert "<script>" not in svg
