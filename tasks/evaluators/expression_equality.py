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
    values: "tuple[ExpressionValue, ...]"


class Region(NamedTuple):
    """A set of real numbers, and the variable that is in it."""

    points: Any
    label: str = ""


class Labelled(NamedTuple):
    """A value with its name: x = 5."""

    label: str
    value: "ExpressionValue"


class Relation(NamedTuple):
    """difference = 0 in variables."""

    difference: Any


ExpressionValue = PlainText | Scalar | Based | Time | Series | Region | Labelled | Relation


def are_equal(left: ExpressionValue, right: ExpressionValue) -> bool:
    """True if two answers are the same; symmetric."""
    left, right = _unwrap(left), _unwrap(right)
    return _equal(left, right) or (type(left) is not type(right) and _equal(right, left))


def region_of(value: ExpressionValue) -> Any:
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


def plain(value: ExpressionValue) -> Any:
    """The exact expression of a scalar without a unit. Raises ValueError for any other value."""
    if not isinstance(value, Scalar) or value.unit:
        raise ValueError("no number")
    return exact(value.value)


def exact(value: Any) -> Any:
    """An expression with its decimals as fractions."""
    return value.xreplace({decimal: sympy.Rational(str(decimal)) for decimal in value.atoms(sympy.Float)}).doit()


def _unwrap(value: ExpressionValue) -> ExpressionValue:
    """The only member of a list, or of a set of no sets: {5} is 5, and {∅} is no ∅."""
    if isinstance(value, Series) and value.brackets in ("", "{}") and len(value.values) == 1:
        (member,) = value.values
        is_set = isinstance(member, Region) or (isinstance(member, Series) and member.brackets == "{}")
        return value if value.brackets and is_set else _unwrap(member)
    return value


def _equal(left: ExpressionValue, right: ExpressionValue) -> bool:
    match left, right:
        case PlainText(), PlainText():
            return left.text == right.text
        case PlainText(product=Scalar() as letters), Scalar():
            return _same_scalars(letters, right)
        case Scalar(), Scalar():
            return _same_scalars(left, right)
        case Based(), Based():
            return left == right
        case Time(), Time():
            return _same_times(left, right)
        case Labelled(), Labelled():
            return (left.label == right.label and are_equal(left.value, right.value)) or _same_curves(left, right)
        case Labelled(), Relation():
            return _same_curves(left, right)
        case Labelled(), Series() if right.brackets == "" and _names(right) == [left.label]:
            return are_equal(left.value, Series("", _bare(right)))
        case Labelled(), Region():
            return right.label in ("", left.label) and are_equal(left.value, right)
        case Labelled(), _:
            return are_equal(left.value, right)
        case Relation(), Relation():
            return _proportional(left, right)
        case Region(), Region() | Series():
            return _same_regions(left, right)
        case Series(), Series():
            return _same_series(left, right)
        case Series(brackets=":"), Scalar() if len(left.values) == 2 and not right.unit:
            top, bottom = (exact(term.value) for term in left.values if isinstance(term, Scalar))
            return bottom != 0 and _same_exactly(top / bottom, exact(right.value))
    return False


def _same_scalars(left: Scalar, right: Scalar) -> bool:
    """Numbers with the same unit, or with one: 5 cm is 5. 28 % is 28 and 0.28, 90° is 90 and π/2."""
    first, second = left.value, right.value
    if left.unit and right.unit:
        return left.unit == right.unit and same_number(first, second)
    if same_number(first, second):
        return True
    for unit, number, bare in ((left.unit, first, second), (right.unit, second, first)):
        if unit in ("%", "°"):
            factor = sympy.Rational(1, 100) if unit == "%" else sympy.pi / 180
            return same_number(exact(number) * factor, bare)
    return False


def same_number(left: Any, right: Any) -> bool:
    """True if two expressions are the same number, for all values of their variables; or one is the other's decimal."""
    if isinstance(left, sympy.MatrixBase | sympy.MatrixExpr) or isinstance(right, sympy.MatrixBase | sympy.MatrixExpr):
        first, second = left.doit(), right.doit()
        if not (isinstance(first, sympy.MatrixBase) and isinstance(second, sympy.MatrixBase)):
            return False
        return first.shape == second.shape and all(map(same_number, first.flat(), second.flat()))
    if _same_exactly(exact(left), exact(right)):
        return True
    if left.free_symbols or right.free_symbols:
        return False
    if left.has(sympy.I) and right.has(sympy.I):
        return all(map(same_number, left.doit().as_real_imag(), right.doit().as_real_imag()))
    return _rounds(left, right) or _rounds(right, left)


def _rounds(decimal: Any, number: Any) -> bool:
    """Whether a decimal is a number to its last digit, with enough digits; or a float's error away from a short one."""
    decimal, number = decimal.doit(), exact(number)
    if not isinstance(decimal, sympy.Float) or number.is_finite is not True or number.is_extended_real is not True:
        return False
    written = sympy.Rational(str(decimal))
    digits = _significant_digits(written)
    error = abs(sympy.N(written - number, 30))
    if _is_terminating(number):
        short = _significant_digits(number) <= _SHORT_DIGITS
        return digits >= _FLOAT_DIGITS and short and error <= abs(number) * sympy.Float("2e-15")
    if digits + bool(abs(written) < 1) < _SIGNIFICANT:
        return False
    last = sympy.Integer(10) ** (sympy.floor(sympy.log(abs(written), 10)) + 1 - digits)
    return bool(error < max(last if digits >= _CUT_DIGITS else last / 2, abs(written) * sympy.Float("1e-12")))


def _significant_digits(number: Any) -> int:
    """Of a fraction, to _RANGE decimals."""
    return len(str(abs(number.p * 10**_RANGE // number.q)).rstrip("0"))


def _is_terminating(number: Any) -> bool:
    """Whether a number is a decimal with a last digit: its denominator divides a power of ten."""
    return bool(number.is_Rational) and pow(10, number.q.bit_length(), number.q) == 0


def _same_exactly(left: Any, right: Any) -> bool:
    """Whether two expressions without decimals agree at some points of their variables, or where both are real."""
    if any(side.has(sympy.zoo, sympy.nan) for side in (left, right)):
        return False
    if left == right:
        return True
    names = left.free_symbols | right.free_symbols
    if not names:
        return _same_constants(left, right) is True
    # Points decide, not sympy's `simplify`, which takes minutes for some expressions and for others never ends.
    agreed = real = 0
    is_partial = False
    for turn in range(len(_POINTS) + len(_POSITIVE)):
        if turn >= len(_POINTS) and real >= _FEWEST_POINTS:
            break
        point = _point(names, turn)
        first, second = (side.xreplace(point).doit() for side in (left, right))
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


def _same_constants(left: Any, right: Any) -> bool | None:
    """Whether two numbers are the same; None if one has no value."""
    if left.is_Rational and right.is_Rational:
        return bool(left == right)
    if any(number in (sympy.oo, -sympy.oo) for number in (left, right)):
        return bool(left == right)
    first, second = sympy.N(left, DIGITS), sympy.N(right, DIGITS)
    if not all(
        number.is_number and number.is_finite and not number.has(sympy.nan, sympy.zoo) for number in (first, second)
    ):
        return None
    size = max(abs(first), abs(second))
    if size > sympy.Float(f"1e-{_RANGE}"):
        if abs(first - second) > size * sympy.Float(f"1e-{DIGITS - _SLACK}"):
            return False
        if size < sympy.Float(f"1e{_RANGE}"):
            return True
    return bool(sympy.simplify(left - right) == 0)  # beyond _RANGE equal digits prove nothing


def _same_times(left: Time, right: Time) -> bool:
    """7:45 is 7:45 p.m., which is 19:45; 7:45 is no 19:45."""
    if bool(left.half) == bool(right.half):
        return left == right
    bare, day = (left, right) if right.half else (right, left)
    return bare.seconds == day.seconds or (bare.seconds < 13 * 3600 and (bare.seconds - day.seconds) % (12 * 3600) == 0)


def _same_regions(left: Region, right: Region | Series) -> bool:
    if isinstance(right, Region) and left.label and right.label and left.label != right.label:
        return False
    try:
        first, second = left.points, region_of(right)
    except ValueError:
        return False
    if first == second:
        return True
    ours, theirs = (points.args if isinstance(points, sympy.Union) else [points] for points in (first, second))
    return len(ours) == len(theirs) and _paired(ours, theirs, _same_pieces)


def _same_pieces(left: Any, right: Any) -> bool:
    if isinstance(left, sympy.Interval) and isinstance(right, sympy.Interval):
        ends = left.left_open == right.left_open and left.right_open == right.right_open
        return bool(ends) and same_number(left.start, right.start) and same_number(left.end, right.end)
    if isinstance(left, sympy.FiniteSet) and isinstance(right, sympy.FiniteSet):
        return len(left) == len(right) and _paired(left.args, right.args, same_number)
    return bool(left == right)


def _same_series(left: Series, right: Series) -> bool:
    if {left.brackets, right.brackets} == {"", "()"}:  # 1, 2 is (1, 2), in this order; x = 1, y = 2 too
        bare, names = (left, _names(left)) if left.brackets == "" else (right, _names(right))
        if len(names) > 1 and names != sorted(names):
            return False
        return _same_series(Series("()", _bare(bare)), right if bare is left else left)
    if {left.brackets, right.brackets} == {"", "{}"}:
        left, right = (Series("", _bare(value)) for value in (left, right))
    if left.brackets != right.brackets or (len(left.values) != len(right.values) and left.brackets != "{}"):
        return False
    if left.brackets == ":":
        return _same_ratios(left.values, right.values)
    if left.brackets == "" and not _is_going_on(left):
        return _same_lists(left, right)
    if left.brackets == "{}" and not _is_going_on(left):
        return all(any(are_equal(value, member) for member in right.values) for value in left.values) and all(
            any(are_equal(value, member) for member in left.values) for value in right.values
        )
    return all(map(are_equal, left.values, right.values))


def _same_lists(left: Series, right: Series) -> bool:
    """In any order; a list with different names equals one without names in its order alone."""
    ours, theirs = _names(left), _names(right)
    if len({*ours, *theirs}) == 1:
        return _paired(_bare(left), _bare(right), are_equal)
    if bool(ours) != bool(theirs):
        return all(map(are_equal, _bare(left), _bare(right)))
    return _paired(left.values, right.values, are_equal)


def _same_ratios(ours: Sequence[ExpressionValue], theirs: Sequence[ExpressionValue]) -> bool:
    if not all(isinstance(term, Scalar) and not term.unit for term in (*ours, *theirs)):
        return all(map(are_equal, ours, theirs))
    left, right = ([exact(term.value) for term in part if isinstance(term, Scalar)] for part in (ours, theirs))
    pairs = zip(left[1:], right[1:], strict=True)
    return not any(term.is_zero for term in (left[0], right[0])) and all(
        _same_exactly(first * right[0], second * left[0]) for first, second in pairs
    )


def _paired(ours: Sequence[Any], theirs: Sequence[Any], same: Any) -> bool:
    """Whether each of ours has one of theirs for its own."""
    left = list(theirs)
    for item in ours:
        place = next((place for place, candidate in enumerate(left) if same(item, candidate)), None)
        if place is None:
            return False
        del left[place]
    return not left


def _names(series: Series) -> list[str]:
    """The different names of the values of a list."""
    return list(dict.fromkeys(value.label for value in series.values if isinstance(value, Labelled)))


def _bare(series: Series) -> tuple[ExpressionValue, ...]:
    """Its values without their names."""
    return tuple(value.value if isinstance(value, Labelled) else value for value in series.values)


def _is_going_on(series: Series) -> bool:
    return any(isinstance(value, PlainText) and "ldots" in value.text for value in series.values)


def _same_curves(left: Labelled, right: Labelled | Relation) -> bool:
    """Equal equations, none of which is solved: x = 5 is not 2x = 10."""
    curves = []
    for curve in (left, right):
        if isinstance(curve, Labelled):
            side = curve.value
            if not isinstance(side, Scalar) or side.unit or not side.value.free_symbols or len(curve.label) != 1:
                return False
            curve = Relation(sympy.Symbol(curve.label, real=True) - exact(side.value))
        curves.append(curve)
    return _proportional(*curves)


def _proportional(left: Relation, right: Relation) -> bool:
    """Whether the difference of one is that of the other times a constant."""
    names = left.difference.free_symbols | right.difference.free_symbols
    for turn in range(3):
        point = _point(names, turn)
        first, second = (relation.difference.xreplace(point).doit() for relation in (left, right))
        if first.is_finite and second.is_finite and not first.is_zero and not second.is_zero:
            return _same_exactly(left.difference, first / second * right.difference)
    return False
