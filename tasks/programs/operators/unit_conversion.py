"""The operator `convert`: units, number formats and dates. Standard library only, since the sandbox imports it.

Factors are exact fractions, so that a conversion and its inverse give the original number.
"""

import datetime
import re
from fractions import Fraction

MAX_DIGITS = 400
"""Longest number that is read, in characters, and the most digits of a value."""

_UNITS: dict[str, dict[str, str]] = {  # kind → name → its size in the kind's first unit
    "length": {
        "metre": "1", "millimetre": "1/1000", "centimetre": "1/100", "decimetre": "1/10", "kilometre": "1000",
        "inch": "0.0254", "foot": "0.3048", "yard": "0.9144", "mile": "1609.344",
    },
    "mass": {
        "gram": "1", "milligram": "1/1000", "kilogram": "1000", "tonne": "1000000", "ounce": "28.349523125",
        "pound": "453.59237", "stone": "6350.29318",
    },
    "volume": {
        "litre": "1", "millilitre": "1/1000", "centilitre": "1/100", "gallon": "3.785411784", "quart": "0.946352946",
        "pint": "0.473176473", "cup": "0.2365882365", "tablespoon": "0.01478676478125", "teaspoon": "0.00492892159375",
    },
    "area": {
        "square metre": "1", "square centimetre": "1/10000", "square kilometre": "1000000", "hectare": "10000",
        "square foot": "0.09290304", "square yard": "0.83612736", "square mile": "2589988.110336",
        "acre": "4046.8564224",
    },
    "time": {
        "second": "1", "minute": "60", "hour": "3600", "day": "86400", "week": "604800", "fortnight": "1209600",
        "millisecond": "1/1000",
    },
    "months": {"month": "1", "quarter": "3", "year": "12", "decade": "120", "century": "1200"},
    "money": {"dollar": "1", "cent": "1/100", "nickel": "1/20", "dime": "1/10", "quarter dollar": "1/4"},
    "count": {
        "piece": "1", "pair": "2", "dozen": "12", "score": "20", "gross": "144", "hundred": "100", "thousand": "1000",
    },
    "number": {"number": "1", "percent": "1/100"},
}  # fmt: skip
_ALIASES = {
    "m": "metre", "mm": "millimetre", "cm": "centimetre", "dm": "decimetre", "km": "kilometre", "in": "inch",
    "inches": "inch", "ft": "foot", "feet": "foot", "yd": "yard", "mi": "mile", "g": "gram", "mg": "milligram",
    "kg": "kilogram", "kilo": "kilogram", "ton": "tonne", "t": "tonne", "oz": "ounce", "lb": "pound", "lbs": "pound",
    "l": "litre", "ml": "millilitre", "cl": "centilitre", "gal": "gallon", "qt": "quart", "pt": "pint",
    "tbsp": "tablespoon", "tsp": "teaspoon", "m2": "square metre", "cm2": "square centimetre",
    "km2": "square kilometre",
    "ha": "hectare", "square feet": "square foot", "s": "second", "sec": "second", "min": "minute", "h": "hour",
    "hr": "hour", "ms": "millisecond", "centuries": "century", "$": "dollar", "usd": "dollar", "¢": "cent",
    "item": "piece", "%": "percent", "percentage": "percent", "decimal": "number",
}  # fmt: skip
_SIZES = {name: (kind, Fraction(size)) for kind, units in _UNITS.items() for name, size in units.items()}
_DEGREES = {  # name → (kelvins in one degree, kelvins at 0 degrees)
    "kelvin": (Fraction(1), Fraction(0)),
    "celsius": (Fraction(1), Fraction("273.15")),
    "fahrenheit": (Fraction(5, 9), Fraction("459.67") * 5 / 9),
}
_NUMBER = re.compile(r"\s*([+-]?)\$?(?:(\d+)[ ]+)?(\d[\d,]*(?:\.\d*)?|\.\d+)(?:\s*/\s*(\d+))?\s*(%?)\s*", re.ASCII)


def convert(value: int | float | str, source: str, target: str) -> int | float | str:
    """A quantity in another unit or form: convert(3, "hours", "minutes") is 180.

    - units of length, mass, volume, area, time, money and count, in full or short, singular or plural: "km", "feet",
      "dozen"; months and years are no time (they differ in length) but convert into each other; degrees by name;
    - number, percent, fraction: convert("3/4", "number", "percent") is 75, convert(0.375, "number", "fraction") "3/8";
    - date ("2024-02-28") to days, a running count whose differences are spans, and back; date to weekday or year day.

    A text is read as a number: "1,200", "3/4", "1 1/2", "75%" (0.75). An int where the result is whole. Raises
    ValueError for an unknown unit, units of different kinds, and anything but a number or a date; TypeError for other
    types.
    """
    if not isinstance(source, str) or not isinstance(target, str):
        raise TypeError("convert() takes the names of two units as texts")
    old, new = _unit(source), _unit(target)
    if "date" in (old, new):
        return _date(value, old, new)
    exact = read_number(value)
    if old in _DEGREES and new in _DEGREES:
        (size, zero), (new_size, new_zero) = _DEGREES[old], _DEGREES[new]
        return _plain((exact * size + zero - new_zero) / new_size)
    if new == "fraction" and _kind(old) == "number":
        return str((exact * _size(old)).limit_denominator(1_000_000))
    if _kind(old) != _kind(new):
        raise ValueError(f"convert() cannot turn {source!r} into {target!r}")
    return _plain(exact * _size(old) / _size(new))


def read_number(value: object) -> Fraction:
    """The exact value of a number, or of a text that is one: "1,200", "$2.50", "3/4", "1 1/2", "75%".

    A float counts as its printed decimal. Raises TypeError for other types, ValueError for anything that is not a
    finite number or is longer than MAX_DIGITS.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"a number or a text is needed, not {type(value).__name__}")
    if isinstance(value, int):
        if value.bit_length() > 4 * MAX_DIGITS:
            raise ValueError("too long a number")
        return Fraction(value)
    text = repr(value) if isinstance(value, float) else value
    if len(text) > MAX_DIGITS:
        raise ValueError("too long a number")
    if isinstance(value, float):
        return Fraction(text)  # ValueError for nan and inf
    match = _NUMBER.fullmatch(text)
    if not match or (match[2] and not match[4]) or (match[4] and int(match[4]) == 0):
        raise ValueError(f"{text[:40]!r} is no number")
    exact = Fraction(match[3].replace(",", "")) / int(match[4] or 1) + int(match[2] or 0)
    return (-exact if match[1] == "-" else exact) / (100 if match[5] else 1)


def _unit(name: str) -> str:
    """The name in _SIZES or _DEGREES for a spelling, or one of fraction, date, days, weekday, year day."""
    spelt = " ".join(name.lower().replace("meter", "metre").replace("liter", "litre").split())
    for form in (spelt, spelt.removesuffix("s"), spelt.removesuffix("es")):
        unit = _ALIASES.get(form, form)
        if unit in _SIZES or unit in _DEGREES or unit in ("fraction", "date", "weekday", "year day"):
            return unit
    raise ValueError(f"convert() does not know the unit {name[:40]!r}")


def _kind(unit: str) -> str:
    return "number" if unit == "fraction" else _SIZES[unit][0] if unit in _SIZES else unit


def _size(unit: str) -> Fraction:
    return Fraction(1) if unit == "fraction" else _SIZES[unit][1]


def _date(value: int | float | str, old: str, new: str) -> int | str:
    if old == "day" and new == "date":
        days = read_number(value)
        if days.denominator != 1:
            raise ValueError("convert() needs whole days for a date")
        try:
            return datetime.date.fromordinal(int(days)).isoformat()
        except (ValueError, OverflowError):
            raise ValueError("convert() knows the years 1 to 9999") from None
    if old != "date" or new not in ("day", "date", "weekday", "year day"):
        raise ValueError("convert() turns a date into days, weekday or year day, and days into a date")
    if not isinstance(value, str):
        raise TypeError("convert() reads a date from a text, as 2024-02-28")
    day = datetime.date.fromisoformat(value.strip())
    if new == "weekday":
        return ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[day.weekday()]
    return {"day": day.toordinal(), "year day": day.timetuple().tm_yday}.get(new) or day.isoformat()


def _plain(exact: Fraction) -> int | float:
    """An int if it is integral, else the nearest float. Raises ValueError on overflow."""
    if exact.denominator == 1:
        return exact.numerator
    try:
        return float(exact)
    except OverflowError:
        raise ValueError("convert() gave no finite number") from None
