r"""Reader of an answer: lists, brackets, relations, units and words around the expressions that math-verify parses.

Every part is read, or the whole is text that equals the same text alone: "5 or more" is no 5. The parser is that of
math-verify (the package latex2sympy2_extended), given one expression at a time in the form of notation.py.
"""

import re
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

from tasks.evaluators.expression_equality import (
    Based,
    ExpressionValue,
    Labelled,
    PlainText,
    Region,
    Relation,
    Scalar,
    Series,
    Time,
    are_equal,
    plain,
    region_of,
)
from tasks.evaluators.notation import WORDS, closing, normalise, split, to_latex

_STATED = re.compile(r"(?:(?:the )?(?:final )?answer(?: is|:)|\*\*(?:final )?answer:\*\*)\s*", re.IGNORECASE)
_COMMA = re.compile(r"[,;]\s*(?:(?:and|or)(?![A-Za-z]))?|(?<![A-Za-z])(?:and|or)(?![A-Za-z])")
_RELATION = re.compile(r"\\(?:le|ge|ne|in)(?![A-Za-z])|[=<>]")
_UNION = re.compile(r"\\(?:cup|cap|setminus)(?![A-Za-z])|-(?=\s*\\\{)")
_COLON = re.compile(r":")
_BAR = re.compile(r"\\mid(?![A-Za-z])|[|:]")
_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])")
_SIGN = re.compile(r"\\[mp]{2}(?![A-Za-z])")

_QUOTED = re.compile(r"\\(?:text|mathrm|mbox)(?:bf|it|rm|normal|sf)?\s*\{([^{}]*)\}")
_TIME = re.compile(r"(\d{1,2})(?=:|.*[mM])(?::(\d\d))?(?::(\d\d))?\s*(?:\\text\{\s*)?(?:([aApP])\.?\s*[mM]\.?)?\s*\}?")
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "twelve": 12}
_BASED = re.compile(r"\(?([0-9A-F]+)\)?\s*_\s*\{?\s*(?:\\text\{)?\s*(\d+|[a-z]+)\s*\}{0,2}")
_PROSE = re.compile(r"[A-Za-z][A-Za-z \-'.,!?]*")
_LABEL = re.compile(
    r"(?:\\(?:angle|triangle|overline|operatorname|vec|mathbf|frac|text)(?![A-Za-z])\s*)*"
    r"(?:\{?(?:[A-Za-z]|\\[a-z]++)'{0,2}(?:\([a-zA-Z0-9, ]*\))?\}?)++(?:\s*:\s*[A-Z])?"
)
_TUPLE_LABEL = re.compile(r"\(\s*[A-Za-z](?:_\{?\w\}?)?(?:\s*,\s*[A-Za-z](?:_\{?\w\}?)?)+\s*\)")

_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALED = re.compile(r"(.*\d)\s*(\\text\{\s*)?(thousand|million|billion|trillion)\b(.*)")
_CURRENCY = re.compile(r"([-+]?)\s*([$€£¥₹])\s*|(.*[\d}])\s*([€£¥₹$])")
_ABBREVIATIONS = r"[mcdk]m|[km]g|lbs?|oz|ft|yd|mi|mph|kph|km/h|m/s|sq|cu|min|hrs?|sec|m[lL]|k[JW]|Hz"
_UNIT = re.compile(
    r"(.*(?:[\d)}\]!°]|\\pi))\s*(?:\\(?:text|mathrm|mbox)(?:bf|it|rm|normal)?\s*\{([^{}]*)\}|"
    rf"({_ABBREVIATIONS}|(?<=°)[CF])|(?<=[\s}}])([A-Za-z]{{4,}}(?:[ /][A-Za-z]+){{0,3}}))"
    r"\s*(?:\^\s*\{?([23])\}?)?"
)
_NO_UNIT = re.compile(
    r"\b(?:and|or|not?|if|for|when|where|is|are|but|only|at|to|up|from|than|mod|plus|minus|times|half|dozen|hundreds?|"
    r"more|less|fewer|least|most|over|under|about|approximately|between|except|with|without|both|all|none|any|"
    r"squared|cubed|remainder|solutions?|\d+)\b",
    re.IGNORECASE,
)
_UNIT_NAMES = {
    **dict.fromkeys(("centimeter", "centimetre"), "cm"), **dict.fromkeys(("meter", "metre"), "m"),
    **dict.fromkeys(("kilometer", "kilometre"), "km"), **dict.fromkeys(("millimeter", "millimetre"), "mm"),
    **dict.fromkeys(("inch", "inche"), "in"), **dict.fromkeys(("foot", "feet"), "ft"), "mile": "mi", "yard": "yd",
    **dict.fromkeys(("second", "sec"), "s"), **dict.fromkeys(("hour", "hr"), "h"), "minute": "min", "kilogram": "kg",
    "gram": "g", "pound": "lb", "liter": "l", "litre": "l", "$": "dollar", "€": "euro", "mph": "mi/h", "kph": "km/h",
    "square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3", "unit": "",
}  # fmt: skip
_ANGLE = re.compile("sin|cos|tan|sec|csc|cot")  # of degrees
_GRAMMAR = ConversionConfig(lowercase_symbols=False)


def read(text: str) -> ExpressionValue:
    """The answer that a text gives; `Text` where no more is known."""
    text = _STATED.sub("", text.strip())
    text = normalise(text[2:-2] if text.startswith("**") and text.endswith("**") else text)
    try:
        return _list(_join_thousands(text))
    except (ValueError, RecursionError):
        return PlainText(_words(text))


def _list(text: str) -> ExpressionValue:
    """Values between commas, semicolons, "and" or "or"; with names that recur, p = 5, q = 2, p = 7, q = 2, tuples."""
    parts = split(text, _COMMA)
    if len(parts) == 1:
        return _element(text)
    elements, words = [_element(part) for part in parts[::2]], {word.strip(" ,") for word in parts[1::2]}
    if all(isinstance(element, Region) for element in elements) and len(words) == 1 and words <= {"or", "and"}:
        merged = _merged(elements, words.pop() == "or")
        if merged is not None:
            return merged
    flat: list[ExpressionValue] = []
    for element in elements:
        if isinstance(element, Labelled) and _is_list(element.value):
            flat += [Labelled(element.label, value) for value in element.value.values]  # type: ignore[union-attr]
        else:
            flat += element.values if _is_list(element) else [element]  # type: ignore[union-attr]
    names = [element.label if isinstance(element, Labelled) else "" for element in flat]
    size = len(set(names))
    if "" not in names and 1 < size < len(names) and names == names[:size] * (len(names) // size):
        values = [element.value for element in flat if isinstance(element, Labelled)]
        flat = [Series("()", tuple(values[start : start + size])) for start in range(0, len(values), size)]
    return Series("", tuple(flat))


def _is_list(value: Any) -> bool:
    return isinstance(value, Series) and value.brackets == ""


def _merged(regions: list[Any], union: bool) -> Region | None:
    """The union or intersection of regions of one variable; None if that says nothing."""
    if len({region.label for region in regions}) > 1:
        return None
    points = (sympy.Union if union else sympy.Intersection)(*(region.points for region in regions))
    return None if points == sympy.S.EmptySet else Region(points, regions[0].label)


def _element(text: str) -> ExpressionValue:
    """One value of a list."""
    text = text.strip()
    if not text:
        raise ValueError("an empty part")
    if quoted := _QUOTED.fullmatch(text):
        inside = quoted[1].strip()
        return _element(inside) if re.fullmatch(r"\(?[A-Za-z0-9.,:/+-]*\)?", inside) else PlainText(_words(inside))
    if time := _TIME.fullmatch(text):
        return _time(*time.groups())
    if based := _BASED.fullmatch(text):
        return _based(based[1], based[2])
    if text in (r"\ldots", r"\cdots"):
        return PlainText(r"\ldots")
    if _PROSE.fullmatch(text) and not text.rstrip(".!?").endswith(")") and _is_prose(text):
        return _prose(text)
    if len(parts := split(text, _RELATION)) > 1:
        return _relation(parts)
    if _SIGN.search(text):
        return Series("", tuple(_element(_with_sign(text, upper)) for upper in (True, False)))
    if len(parts := split(text, _UNION)) > 1:
        return _union(parts)
    if (value := _bracket(text)) is not None:
        return value
    if len(parts := split(text, _COLON)) > 1:
        return Series(":", tuple(map(_element, parts[::2])))
    return _scalar(text)


def _with_sign(text: str, upper: bool) -> str:
    """The text with the upper or the lower signs of all ± and ∓."""
    return _SIGN.sub(lambda sign: "+" if (sign[0] == r"\pm") == upper else "-", text)


def _time(hours: str, minutes: str | None, seconds: str | None, half: str | None) -> Time:
    if int(hours) > 24 or int(minutes or 0) > 59:
        raise ValueError("no time of day")
    hour = int(hours) % 12 + 12 * (half in ("p", "P")) if half else int(hours)
    return Time(hour * 3600 + int(minutes or 0) * 60 + int(seconds or 0), f"{half.lower()}m" if half else "")


def _based(digits: str, base: str) -> ExpressionValue:
    number = int(base) if base.isdigit() else _BASES.get(base, 0)
    if not 2 <= number <= 16 or any(int(digit, 16) >= number for digit in digits):
        raise ValueError("no numeral")
    return Scalar(sympy.Integer(digits)) if number == 10 else Based(digits.lstrip("0") or "0", number)


def _is_prose(text: str) -> bool:
    """Whether letters are words and no expression: a run of three or more that mathematics does not know."""
    runs = re.findall(r"[A-Za-z]+", text)
    return any(len(run) > 2 and run not in WORDS and run[:-1] not in WORDS for run in runs)


def _prose(text: str) -> PlainText:
    letters = text if text.isalpha() and len(text) < 6 else ""
    return PlainText(_words(text), Scalar(_parsed(letters)) if letters else None)


def _relation(parts: list[str]) -> ExpressionValue:
    sides, signs = parts[::2], parts[1::2]
    if signs == [r"\in"]:
        return Labelled(_label(sides[0]), _as_region(_element(sides[1])))
    if set(signs) == {"="}:
        return _equation(sides)
    return _inequality(sides, signs)


def _as_region(value: ExpressionValue) -> ExpressionValue:
    """An interval after "x ∈" is no point."""
    is_interval = isinstance(value, Series) and value.brackets in ("()", "[)", "(]", "[]")
    return Region(region_of(value)) if is_interval else value


def _equation(sides: list[str]) -> ExpressionValue:
    """A named value, the value of a chain of equal ones, or an equation in variables."""
    if len(sides) == 2 and _is_label(sides[1]) and not _is_label(sides[0]):
        sides = sides[::-1]
    is_named = _is_label(sides[0])
    values = [_element(side) for side in sides[is_named:]]
    if not is_named and any(isinstance(value, Scalar) and value.value.free_symbols for value in values):
        left, right = map(plain, values)
        return Relation(left - right)
    if not all(are_equal(values[0], value) for value in values[1:]):
        raise ValueError("a chain of different values")
    return Labelled(_label(sides[0]), values[-1]) if is_named else values[-1]


def _is_label(text: str) -> bool:
    """Whether a side of an equation is a name: x, x_1, f(x), AB, (x, y), \\angle A, \\text{Area}; not xy or 2x."""
    if _TUPLE_LABEL.fullmatch(text):
        return True
    if text in (r"\infty", r"\pi", "e", "i"):
        return False
    bare = re.sub(r"_\s*(?:\{(?:[^{}]|\{[^{}]*\})*\}|\w)", "", text).strip()
    if _QUOTED.fullmatch(bare) or re.fullmatch(r"\\[a-z]+", bare):
        return True
    runs = re.findall(r"\\[A-Za-z]+|[A-Za-z]+", re.sub(r"\([^()]*\)", "", bare))
    names = [run for run in runs if not run.startswith("\\")]
    return bool(_LABEL.fullmatch(bare)) and all(len(run) == 1 or run.isupper() for run in names)


def _label(text: str) -> str:
    if not _is_label(text):
        raise ValueError("no name")
    return re.sub(r"[\s{}]", "", text).lower()


def _inequality(sides: list[str], signs: list[str]) -> ExpressionValue:
    """A region of one variable."""
    if r"\in" in signs or "=" in signs or (r"\ne" in signs and len(signs) > 1):
        raise ValueError("a chain of different relations")
    sizes = [side[1:-1] if re.fullmatch(r"\|[^|]+\|", side) and _is_label(side[1:-1]) else None for side in sides]
    places = [place for place, side in enumerate(sides) if not side or _is_label(side) or sizes[place]]
    if len(places) != 1:
        raise ValueError("an inequality in several variables")
    (place,) = places
    parts: list[Any] = []
    for index, sign in enumerate(signs):
        if place not in (index, index + 1):
            raise ValueError("a chain without its variable")
        number = plain(_scalar(sides[index + 1] if place == index else sides[index]))
        parts.append(_half_line(sign, number, on_the_left=place == index))
    points = sympy.Intersection(*parts)
    if size := sizes[place]:  # |x| > 2
        points = sympy.Intersection(points, sympy.Interval(0, sympy.oo))
        return Region(sympy.Union(points, sympy.imageset(lambda number: -number, points)), _label(size))
    return Region(points, _label(sides[place]) if sides[place] else "")


def _half_line(sign: str, number: Any, on_the_left: bool) -> Any:
    """The numbers that have a relation to a number; `on_the_left`: the variable is."""
    if sign == r"\ne":
        return sympy.Complement(sympy.S.Reals, sympy.FiniteSet(number))
    is_open = sign in "<>"
    if (sign in ("<", r"\le")) == on_the_left:
        return sympy.Interval(-sympy.oo, number, True, is_open)
    return sympy.Interval(number, sympy.oo, is_open, True)


def _union(parts: list[str]) -> Region:
    points = region_of(_element(parts[0]))
    for sign, part in zip(parts[1::2], parts[2::2], strict=True):
        more = region_of(_element(part))
        make = {r"\cup": sympy.Union, r"\cap": sympy.Intersection}.get(sign, sympy.Complement)
        points = make(points, more)
    return Region(points)


def _bracket(text: str) -> ExpressionValue | None:
    """A tuple, an interval, a set, a matrix in plain text or a bracketed value; None if it is none as a whole."""
    if text == r"\emptyset":
        return Region(sympy.S.EmptySet)
    if field := re.fullmatch(r"\\mathbb\s*\{?([RZNQC])\}?", text):
        return Region(sympy.S.Reals) if field[1] == "R" else PlainText(field[0])
    text = text.removeprefix("Matrix").strip()
    escaped = text.startswith(r"\{")
    opening = 1 if escaped else 0
    if text[opening : opening + 1] not in ("(", "[", "{") or closing(text, opening) != len(text) - 1:
        return None
    inside = text[opening + 1 : -2] if escaped else text[1:-1]
    if escaped and len(parts := split(inside, _BAR)) == 3:
        member = re.fullmatch(r"([A-Za-z])(?:\s*\\in\s*\\mathbb\s*\{?R\}?)?", parts[0])
        if member is None or not isinstance(rule := _element(parts[2]), Region) or rule.label != member[1].lower():
            raise ValueError("a set with a rule that is not read")
        return rule
    members = split(inside, _COMMA)[::2]
    if len(members) == 1 and not escaped:
        return None if text[0] == "[" else _element(inside)
    if text[0] == "{":
        return _list(inside)
    brackets = "{}" if escaped else text[0] + text[-1]
    values = tuple(map(_element, members))
    rows = [value.values for value in values if isinstance(value, Series) and value.brackets == "[]"]
    if brackets == "[]" and len(rows) == len(values) and len({len(row) for row in rows}) == 1:
        return Scalar(sympy.Matrix([list(map(plain, row)) for row in rows]))
    if brackets == "()" and len(values) == 1:
        return values[0]
    if any(_is_list(value) for value in values):
        raise ValueError("a list in brackets")
    return Series(brackets, values)


def _scalar(text: str) -> Scalar:
    """An expression with its unit."""
    units: list[str] = []
    while True:
        if text.endswith(("%", "°")) and units in ([], ["c"], ["f"]) and not _ANGLE.search(text):
            units.append(text[-1])
            text = text[:-1].strip()
        elif (currency := _CURRENCY.match(text)) and (currency[2] or currency.end() == len(text)):
            units.append(_unit_name(currency[2] or currency[4]))
            text = (currency[1] or "") + text[currency.end() :] if currency[2] else currency[3]
        elif scaled := _SCALED.fullmatch(text):
            number, quote, scale, rest = scaled.groups()
            text = f"({number})*{_SCALES[scale]}{quote or ''}{rest}"
        elif unit := _UNIT.fullmatch(text):
            name = next(word for word in unit.groups()[1:4] if word is not None)
            units.append(_unit_name(name) + (f"^{unit[5]}" if unit[5] else ""))
            text = unit[1]
        else:
            value = _parsed(text)
            if units and value.free_symbols:
                raise ValueError("a unit of an expression with variables")
            return Scalar(value, " ".join(sorted(filter(None, units))))


def _unit_name(text: str) -> str:
    """A unit's short name. Raises ValueError for words that say more than a unit."""
    words = re.findall(r"[A-Za-z°$€£¥₹]+|/", text.replace("per", "/"))
    if _NO_UNIT.search(text) or len(words) > 6:
        raise ValueError("no unit")
    names = [word.lower().rstrip("s") or "s" for word in words]
    names = [_UNIT_NAMES.get(name, name) for name in names]
    powers = [power for power in ("^2", "^3") if power in names]
    return "".join([*(name for name in names if name not in powers), *powers])


@lru_cache(1000)
def _parsed(text: str) -> Any:
    """math-verify's expression of a text. Raises ValueError if that is none."""
    try:
        expression = latex2sympy(to_latex(text), is_real=True, normalization_config=None, conversion_config=_GRAMMAR)
    except Exception as error:  # noqa: BLE001 (the generated parser raises plain exceptions)
        raise ValueError(f"no expression: {error}") from None
    if not isinstance(expression, sympy.Expr | sympy.MatrixBase | sympy.MatrixExpr):
        raise ValueError("no expression")
    return expression.xreplace({sympy.Symbol("i", real=True): sympy.I})


def _join_thousands(text: str) -> str:
    """Without the commas of 10,080, which separate values in brackets."""

    def joined(number: "re.Match[str]") -> str:
        before = text[: number.start()].replace(r"\{", "(").replace(r"\}", ")")
        depth = sum(before.count(bracket) for bracket in "([") - sum(before.count(bracket) for bracket in ")]")
        return number[0] if depth else number[0].replace(",", "")

    return _THOUSANDS.sub(joined, text)


def _words(text: str) -> str:
    """A text as it is compared: prose in lower case, other notations without blanks, except between digits."""
    text = " ".join(_QUOTED.sub(r"\1", text).split()).strip(".,")
    if "\\" not in text and _is_prose(text):
        return re.sub(r"\s*([^\w\s])\s*", r"\1", text).lower()
    return re.sub(r"(?<!\d) | (?!\d)", "", text)
