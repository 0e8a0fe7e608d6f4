"""Equality of answers that were read: numbers exactly or as roundings, expressions at points, sets, tuples, equations.

Two numbers that are no decimals are equal if they agree in DIGITS digits. A decimal equals another number only if that
is written exactly; or if it is its rounding, or its first digits, and has enough of them. So 1/3 is 0.333333 and no
0.333, and 1.0000001 is not 1.0000002. Relations and sets are equal if sympy's sets are. What was not read is equal to
the same text alone. A miss is better than a wrong verdict of equality, which a policy would learn.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import sympy

DIGITS = 1000
"""Digits in which equal irrational numbers agree."""

_SLACK = 100
_RANGE = 400
_SIGNIFICANT = 7
"""Fewest digits of a decimal that stands for a number that it is not, a 0 before the point included."""

_CUT_DIGITS = 10
"""Fewest digits of a decimal that is cut off instead of rounded."""

_FLOAT_DIGITS = 15
_SHORT_DIGITS = 12
_POINTS = [sympy.Rational(top, bottom) for top, bottom in ((7, 3), (-5, 7), (23, 11), (-31, 13), (2, 17), (-101, 19))]
_POSITIVE = [sympy.Rational(top, bottom) for top, bottom in ((11, 5), (37, 8), (3, 19), (97, 6), (1, 23), (53, 9))]
_FEWEST_POINTS = 3


class PlainText(NamedTuple):
    """Words, or what could not be read: equal to the same text alone. `product`: letters as a product of variables."""

    text: str
    product: "Scalar | None" = None


class Scalar(NamedTuple):
    """A number or an expression with variables, decimals as sympy's floats; and its unit, such as "cm^2", % or °."""

    value: Any
    unit: str = ""


class Based(NamedTuple):
    """A numeral in a base other than ten, which belongs to the answer."""

    digits: str
    base: int


class Time(NamedTuple):
    """A time of day in seconds since midnight; `half` is am, pm or unknown."""

    seconds: int
    half: str


class Series(NamedTuple):
    """Values in brackets, or without in a list, or between colons in a ratio."""

    brackets: str  # "()", "[)", "{}", "" for a list, ":" for a ratio
    values: "tuple[Value, ...]"


class Region(NamedTuple):
    """A set of real numbers, and the variable that is in it."""

    points: Any
    label: str = ""


class Labelled(NamedTuple):
    """A value with its name: x = 5."""

    label: str
    value: "Value"


class Relation(NamedTuple):
    """difference = 0 in variables."""

    difference: Any


Value = PlainText | Scalar | Based | Time | Series | Region | Labelled | Relation


def are_equal(one: Value, other: Value) -> bool:
    """True if two answers are the same; symmetric."""
    one, other = _unwrap(one), _unwrap(other)
    return _equal(one, other) or (type(one) is not type(other) and _equal(other, one))


def region_of(value: Value) -> Any:
    """The set of real numbers that a value denotes, as sympy's. Raises ValueError if it is none."""
    value = _unwrap(value)
    if isinstance(value, Labelled):
        value = value.value
    if isinstance(value, Region):
        return value.points
    if isinstance(value, Series) and value.brackets in ("()", "[)", "(]", "[]") and len(value.values) == 2:
        ends = map(plain, value.values)
        interval = sympy.Interval(*ends, value.brackets[0] == "(", value.brackets[1] == ")")
        if interval != sympy.S.EmptySet:
            return interval
    elif isinstance(value, Series) and value.brackets in ("", "{}"):
        return sympy.FiniteSet(*map(plain, value.values))
    elif isinstance(value, Scalar):
        return sympy.FiniteSet(plain(value))
    raise ValueError("no set of numbers")


def plain(value: Value) -> Any:
    """The exact expression of a scalar without a unit. Raises ValueError for any other value."""
    if not isinstance(value, Scalar) or value.unit:
        raise ValueError("no number")
    return exact(value.value)


def exact(value: Any) -> Any:
    """An expression with its decimals as fractions."""
    return value.xreplace({each: sympy.Rational(str(each)) for each in value.atoms(sympy.Float)}).doit()


def _unwrap(value: Value) -> Value:
    """The only member of a list, or of a set of no sets: {5} is 5, and {∅} is no ∅."""
    if isinstance(value, Series) and value.brackets in ("", "{}") and len(value.values) == 1:
        (member,) = value.values
        is_set = isinstance(member, Region) or (isinstance(member, Series) and member.brackets == "{}")
        return value if value.brackets and is_set else _unwrap(member)
    return value


def _equal(one: Value, other: Value) -> bool:
    match one, other:
        case PlainText(), PlainText():
            return one.text == other.text
        case PlainText(product=Scalar() as letters), Scalar():
            return _same_scalars(letters, other)
        case Scalar(), Scalar():
            return _same_scalars(one, other)
        case Based(), Based():
            return one == other
        case Time(), Time():
            return _same_times(one, other)
        case Labelled(), Labelled():
            return (one.label == other.label and are_equal(one.value, other.value)) or _same_curves(one, other)
        case Labelled(), Relation():
            return _same_curves(one, other)
        case Labelled(), Series() if other.brackets == "" and _names(other) == [one.label]:
            return are_equal(one.value, Series("", _bare(other)))
        case Labelled(), Region():
            return other.label in ("", one.label) and are_equal(one.value, other)
        case Labelled(), _:
            return are_equal(one.value, other)
        case Relation(), Relation():
            return _proportional(one, other)
        case Region(), Region() | Series():
            return _same_regions(one, other)
        case Series(), Series():
            return _same_series(one, other)
        case Series(brackets=":"), Scalar() if len(one.values) == 2 and not other.unit:
            top, bottom = (exact(each.value) for each in one.values if isinstance(each, Scalar))
            return bottom != 0 and _same_exactly(top / bottom, exact(other.value))
    return False


def _same_scalars(one: Scalar, other: Scalar) -> bool:
    """Numbers with the same unit, or with one: 5 cm is 5. 28 % is 28 and 0.28, 90° is 90 and π/2."""
    first, second = one.value, other.value
    if one.unit and other.unit:
        return one.unit == other.unit and same_number(first, second)
    if same_number(first, second):
        return True
    for unit, given, bare in ((one.unit, first, second), (other.unit, second, first)):
        if unit in ("%", "°"):
            factor = sympy.Rational(1, 100) if unit == "%" else sympy.pi / 180
            return same_number(exact(given) * factor, bare)
    return False


def same_number(one: Any, other: Any) -> bool:
    """True if two expressions are the same number, for all values of their variables; or one is the other's decimal."""
    if isinstance(one, sympy.MatrixBase | sympy.MatrixExpr) or isinstance(other, sympy.MatrixBase | sympy.MatrixExpr):
        first, second = one.doit(), other.doit()
        if not (isinstance(first, sympy.MatrixBase) and isinstance(second, sympy.MatrixBase)):
            return False
        return first.shape == second.shape and all(map(same_number, first.flat(), second.flat()))
    if _same_exactly(exact(one), exact(other)):
        return True
    if one.free_symbols or other.free_symbols:
        return False
    if one.has(sympy.I) and other.has(sympy.I):
        return all(map(same_number, one.doit().as_real_imag(), other.doit().as_real_imag()))
    return _rounds(one, other) or _rounds(other, one)


def _rounds(decimal: Any, number: Any) -> bool:
    """Whether a decimal is a number to its last digit, with enough digits; or a float's error away from a short one."""
    decimal, number = decimal.doit(), exact(number)
    if not isinstance(decimal, sympy.Float) or number.is_finite is not True or number.is_extended_real is not True:
        return False
    given = sympy.Rational(str(decimal))
    digits = _significant_digits(given)
    error = abs(sympy.N(given - number, 30))
    if _is_terminating(number):
        short = _significant_digits(number) <= _SHORT_DIGITS
        return digits >= _FLOAT_DIGITS and short and error <= abs(number) * sympy.Float("2e-15")
    if digits + bool(abs(given) < 1) < _SIGNIFICANT:
        return False
    last = sympy.Integer(10) ** (sympy.floor(sympy.log(abs(given), 10)) + 1 - digits)
    return bool(error < max(last if digits >= _CUT_DIGITS else last / 2, abs(given) * sympy.Float("1e-12")))


def _significant_digits(number: Any) -> int:
    """Of a fraction, to _RANGE decimals."""
    return len(str(abs(number.p * 10**_RANGE // number.q)).rstrip("0"))


def _is_terminating(number: Any) -> bool:
    """Whether a number is a decimal with a last digit: its denominator divides a power of ten."""
    return bool(number.is_Rational) and pow(10, number.q.bit_length(), number.q) == 0


def _same_exactly(one: Any, other: Any) -> bool:
    """Whether two expressions without decimals agree at some points of their variables, or where both are real."""
    if any(each.has(sympy.zoo, sympy.nan) for each in (one, other)):
        return False
    if one == other:
        return True
    names = one.free_symbols | other.free_symbols
    if not names:
        return _same_constants(one, other) is True
    agreed = real = 0
    is_partial = False
    for turn in range(len(_POINTS) + len(_POSITIVE)):
        if turn >= len(_POINTS) and real >= _FEWEST_POINTS:
            break
        point = _point(names, turn)
        first, second = (each.xreplace(point).doit() for each in (one, other))
        verdict = _same_constants(first, second)
        if verdict is False:
            if _is_real(first) or _is_real(second):
                return False
            is_partial = True  # √(1/m) and 1/√m, where m < 0: no real number
        elif verdict:
            agreed, real = agreed + 1, real + _is_real(first)
    return (real if is_partial else agreed) >= _FEWEST_POINTS


def _point(names: set[Any], turn: int) -> dict[Any, Any]:
    """A value for each variable, after the turns of _POINTS a positive one; another one in each turn."""
    values = _POINTS if turn < len(_POINTS) else _POSITIVE
    count = len(values)
    return {name: values[(turn + place) % count] + place // count for place, name in enumerate(sorted(names, key=str))}


def _is_real(number: Any) -> bool:
    value = sympy.N(number, 30)
    return bool(abs(sympy.im(value)) <= abs(value) * sympy.Float("1e-20"))


def _same_constants(one: Any, other: Any) -> bool | None:
    """Whether two numbers are the same; None if one has no value."""
    if one.is_Rational and other.is_Rational:
        return bool(one == other)
    if any(each in (sympy.oo, -sympy.oo) for each in (one, other)):
        return bool(one == other)
    first, second = sympy.N(one, DIGITS), sympy.N(other, DIGITS)
    if not all(each.is_number and each.is_finite and not each.has(sympy.nan, sympy.zoo) for each in (first, second)):
        return None
    size = max(abs(first), abs(second))
    if size > sympy.Float(f"1e-{_RANGE}"):
        if abs(first - second) > size * sympy.Float(f"1e-{DIGITS - _SLACK}"):
            return False
        if size < sympy.Float(f"1e{_RANGE}"):
            return True
    return bool(sympy.simplify(one - other) == 0)  # beyond _RANGE equal digits prove nothing


def _same_times(one: Time, other: Time) -> bool:
    """7:45 is 7:45 p.m., which is 19:45; 7:45 is no 19:45."""
    if bool(one.half) == bool(other.half):
        return one == other
    bare, day = (one, other) if other.half else (other, one)
    return bare.seconds == day.seconds or (bare.seconds < 13 * 3600 and (bare.seconds - day.seconds) % (12 * 3600) == 0)


def _same_regions(one: Region, other: Region | Series) -> bool:
    if isinstance(other, Region) and one.label and other.label and one.label != other.label:
        return False
    try:
        first, second = one.points, region_of(other)
    except ValueError:
        return False
    if first == second:
        return True
    ours, theirs = (each.args if isinstance(each, sympy.Union) else [each] for each in (first, second))
    return len(ours) == len(theirs) and _paired(ours, theirs, _same_pieces)


def _same_pieces(one: Any, other: Any) -> bool:
    if isinstance(one, sympy.Interval) and isinstance(other, sympy.Interval):
        ends = one.left_open == other.left_open and one.right_open == other.right_open
        return bool(ends) and same_number(one.start, other.start) and same_number(one.end, other.end)
    if isinstance(one, sympy.FiniteSet) and isinstance(other, sympy.FiniteSet):
        return len(one) == len(other) and _paired(one.args, other.args, same_number)
    return bool(one == other)


def _same_series(one: Series, other: Series) -> bool:
    if {one.brackets, other.brackets} == {"", "()"}:  # 1, 2 is (1, 2), in this order; x = 1, y = 2 too
        bare, names = (one, _names(one)) if one.brackets == "" else (other, _names(other))
        if len(names) > 1 and names != sorted(names):
            return False
        return _same_series(Series("()", _bare(bare)), other if bare is one else one)
    if {one.brackets, other.brackets} == {"", "{}"}:
        one, other = (Series("", _bare(each)) for each in (one, other))
    if one.brackets != other.brackets or (len(one.values) != len(other.values) and one.brackets != "{}"):
        return False
    if one.brackets == ":":
        return _same_ratios(one.values, other.values)
    if one.brackets == "" and not _is_going_on(one):
        return _same_lists(one, other)
    if one.brackets == "{}" and not _is_going_on(one):
        return all(any(are_equal(each, member) for member in other.values) for each in one.values) and all(
            any(are_equal(each, member) for member in one.values) for each in other.values
        )
    return all(map(are_equal, one.values, other.values))


def _same_lists(one: Series, other: Series) -> bool:
    """In any order; a list with different names equals one without names in its order alone."""
    ours, theirs = _names(one), _names(other)
    if len({*ours, *theirs}) == 1:
        return _paired(_bare(one), _bare(other), are_equal)
    if bool(ours) != bool(theirs):
        return all(map(are_equal, _bare(one), _bare(other)))
    return _paired(one.values, other.values, are_equal)


def _same_ratios(ours: Sequence[Value], theirs: Sequence[Value]) -> bool:
    if not all(isinstance(each, Scalar) and not each.unit for each in (*ours, *theirs)):
        return all(map(are_equal, ours, theirs))
    one, other = ([exact(each.value) for each in part if isinstance(each, Scalar)] for part in (ours, theirs))
    pairs = zip(one[1:], other[1:], strict=True)
    return not any(each.is_zero for each in (one[0], other[0])) and all(
        _same_exactly(first * other[0], second * one[0]) for first, second in pairs
    )


def _paired(ours: Sequence[Any], theirs: Sequence[Any], same: Any) -> bool:
    """Whether each of ours has one of theirs for its own."""
    left = list(theirs)
    for each in ours:
        place = next((place for place, candidate in enumerate(left) if same(each, candidate)), None)
        if place is None:
            return False
        del left[place]
    return not left


def _names(series: Series) -> list[str]:
    """The different names of the values of a list."""
    return list(dict.fromkeys(each.label for each in series.values if isinstance(each, Labelled)))


def _bare(series: Series) -> tuple[Value, ...]:
    """Its values without their names."""
    return tuple(each.value if isinstance(each, Labelled) else each for each in series.values)


def _is_going_on(series: Series) -> bool:
    return any(isinstance(each, PlainText) and "ldots" in each.text for each in series.values)


def _same_curves(one: Labelled, other: Labelled | Relation) -> bool:
    """Equal equations, none of which is solved: x = 5 is not 2x = 10."""
    curves = []
    for each in (one, other):
        if isinstance(each, Labelled):
            side = each.value
            if not isinstance(side, Scalar) or side.unit or not side.value.free_symbols or len(each.label) != 1:
                return False
            each = Relation(sympy.Symbol(each.label, real=True) - exact(side.value))
        curves.append(each)
    return _proportional(*curves)


def _proportional(one: Relation, other: Relation) -> bool:
    """Whether the difference of one is that of the other times a constant."""
    names = one.difference.free_symbols | other.difference.free_symbols
    for turn in range(3):
        point = _point(names, turn)
        first, second = (each.difference.xreplace(point).doit() for each in (one, other))
        if first.is_finite and second.is_finite and not first.is_zero and not second.is_zero:
            return _same_exactly(one.difference, first / second * other.difference)
    return False
