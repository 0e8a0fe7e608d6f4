"""Charts as inline SVG: curves with bands, and bars.

Colours and fonts come from the style sheet of the page, also for its dark mode. Charts are small (WIDTH × HEIGHT), so
that a phone does not shrink their text. The same numbers give the same text.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from markupsafe import Markup

WIDTH, HEIGHT = 340, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 8, 34  # of the plot, inside the picture
MAX_MARKS = 12
"""Curves with more points are drawn without marks."""


TINY = 1e-12
"""Least span of an axis, as a share of the end that is further from 0."""

LARGEST = 1.79e308
"""End of an axis: with what is added to it still a float."""


class Point(NamedTuple):
    """`low` and `high` are the ends of its interval; equal to y if it has none."""

    x: float
    y: float
    low: float
    high: float


class Stack(NamedTuple):
    """A bar from `low` to `high`, of parts on top of each other."""

    low: float
    high: float
    counts: Sequence[int]  # of each part


class Curve(NamedTuple):
    """One line of a chart, its points in the order of x."""

    name: str
    colour: int  # class of the style sheet, from 0
    points: Sequence[Point]
    dashed: bool = False


def curves(
    title: str, drawn: Sequence[Curve], bounds: tuple[float, float] | None = None, x_name: str = "round"
) -> Markup:
    """Lines over rounds, or what `x_name` says, with their bands. `bounds`: of the y axis, by default the data's."""
    points = [point for curve in drawn for point in curve.points]
    low, high = bounds or (min(min(0.0, p.low) for p in points), max(p.high for p in points))
    frame = _Frame(title, (min(p.x for p in points), max(p.x for p in points)), (low, high))
    frame.axes(x_name, [(x, f"{x:g}") for x in steps_between(*frame.x_ends, least=1)])
    for curve in drawn:
        frame.band(curve)
    for curve in drawn:
        frame.line(curve)
    return frame.text()


def bars(title: str, bins: Sequence[Stack], x_name: str, parts: Mapping[str, str]) -> Markup:
    """Stacked bars of equal width, although the outer bins may be far wider; the middle and the quarters are marked.

    `parts`: the class in the style sheet of each part, from below, and the word for what it counts.
    """
    frame = _Frame(title, (0.0, float(len(bins))), (0.0, float(max(sum(b.counts) for b in bins))))
    quarters = [len(bins) // 4, len(bins) // 2, len(bins) - len(bins) // 4]  # of influence: 0, half-way to open ends
    frame.axes(x_name, [(float(i), _short(bins[i].low)) for i in quarters])
    for i, bin in enumerate(bins):
        counted = ", ".join(f"{count} {word}" for count, word in zip(bin.counts, parts.values(), strict=True))
        floor = 0
        for count, look in zip(bin.counts, parts, strict=True):
            frame.bar(i, floor, floor + count, f"bar {look}", f"{_short(bin.low)} to {_short(bin.high)}: {counted}")
            floor += count
    return frame.text()


class _Frame:
    """A picture with its two axes; x and y below are in the units of the data."""

    def __init__(self, title: str, x_ends: tuple[float, float], y_ends: tuple[float, float]) -> None:
        self.x_ends, self._y = _span(x_ends), _span(y_ends)
        self._svg = Element("svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": title})

    def axes(self, x_name: str, ticks: Sequence[tuple[float, str]]) -> None:
        for y in steps_between(*self._y):
            self._add("line", "grid", x1=LEFT, x2=WIDTH - RIGHT, y1=self.y(y), y2=self.y(y))
            self._add("text", "end", _short(y), x=LEFT - 5, y=self.y(y) + 4)
        for x, text in ticks:
            self._add("text", "middle", text, x=self.x(x), y=HEIGHT - BOTTOM + 14)
        self._add("text", "middle", x_name, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 5)

    def band(self, curve: Curve) -> None:
        if len(curve.points) > 1 and any(p.low < p.high for p in curve.points):
            there = [(p.x, p.high) for p in curve.points]
            back = [(p.x, p.low) for p in reversed(curve.points)]
            self._add("polygon", f"band c{curve.colour}", points=self._path([*there, *back]))

    def line(self, curve: Curve) -> None:
        look = f"c{curve.colour}{' dashed' if curve.dashed else ''}"
        self._add("polyline", f"line {look}", points=self._path([(p.x, p.y) for p in curve.points]))
        if len(curve.points) <= MAX_MARKS:
            for p in curve.points:
                interval = f" ({p.low:.3g} to {p.high:.3g})" if p.low < p.high else ""
                mark = self._add("circle", f"mark {look}", cx=self.x(p.x), cy=self.y(p.y), r=3)
                SubElement(mark, "title").text = f"{curve.name}: {p.y:.4g}{interval} at {p.x:g}"

    def bar(self, place: int, low: int, high: int, look: str, label: str) -> None:
        if high > low:
            top, bottom, width = self.y(high), self.y(low), self.x(place + 1) - self.x(place) - 1
            drawn = self._add("rect", look, x=self.x(place) + 0.5, y=top, width=width, height=bottom - top)
            SubElement(drawn, "title").text = label

    def text(self) -> Markup:
        return Markup(ElementTree.tostring(self._svg, encoding="unicode"))  # escaped by ElementTree

    def x(self, value: float) -> float:
        return _between(value, self.x_ends, LEFT, WIDTH - RIGHT)

    def y(self, value: float) -> float:
        return _between(value, self._y, HEIGHT - BOTTOM, TOP)

    def _path(self, points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)

    def _add(self, tag: str, look: str, text: str | None = None, **numbers: float | str) -> Element:
        values = {name: value if isinstance(value, str) else f"{value:.1f}" for name, value in numbers.items()}
        element = SubElement(self._svg, tag, {"class": look, **values})
        element.text = text
        return element


def steps_between(low: float, high: float, least: float = 0.0) -> list[float]:
    """About five round numbers from `low` < `high`: multiples of 1, 2 or 5 × 10ⁿ that are at least `least` apart."""
    rough = max(high / 5 - low / 5, least)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _span(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = (min(max(end, -LARGEST), LARGEST) for end in ends)
    if high / 2 - low / 2 > TINY * max(abs(low), abs(high), 1e-280):
        return low, high
    around = max(abs(low) * TINY, 0.5)
    return (low - around, low + around) if low else (0.0, 1.0)


def _between(value: float, span: tuple[float, float], start: float, end: float) -> float:
    """The place of `value` on a picture; halves, as the difference of two numbers of 1e308 is infinite."""
    return start + (value / 2 - span[0] / 2) / (span[1] / 2 - span[0] / 2) * (end - start)


def _short(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 1 else f"{value:.4g}"
