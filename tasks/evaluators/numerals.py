"""Parser of the number that a text gives as its answer, and its comparison with the expected answer.

Position, the first that applies: in the last closed `\\boxed{}`; right after the last `####` followed by a number
(`#### Step 2` is a headline); after the last "answer is", "answer:" or "answer =", with at most one word between; else
the last number of the text. Calculations are followed to their result: "the answer is 5 + 3 = 8 apples" gives 8.

Supported: integers, decimals, fractions (`3/4`, `1 1/2`, `½`, `\\frac{3}{4}`), percentages, thousands separators
(`1,234`, `1_234`, `1'234`, `1{,}234`, a narrow or no-break space), currency before the number, units and prose after
it, `million` etc., scientific notation (`1.5e3`, `1.5 × 10^3`, `10³`), minus signs of all kinds. English
conventions: a comma is never a decimal point, a space never separates thousands.

None in spite of a digit: a calculation without its result (`5 + 3`, `2^10`, `\\sqrt{2}`, `4\\pi`);
ranges, dates and times (`3-5`, `3/4/2024`, `3:45`); `3,50`, `1,2,3`, `1.2.3`, `1 000` and `3/0`; numbers longer
than LONGEST. Ignored are digits in a word (`H2O`), a power or an index (`m^2`, `x_1`), and `3rd`. Expressions are not
evaluated, number words not supported.

Every pattern matches at most three blanks and whole runs of digits (possessive), so parsing is linear in the length of
the text.
"""

import re
from collections import deque
from fractions import Fraction
from unicodedata import normalize

from tasks.evaluators.number import Exact, are_same, exact
from tasks.evaluators.text import BLANK, last_box

LONGEST = 300
"""Longest number in characters, and largest power of ten: about the range of a float."""

_LARGEST = 10**LONGEST

# LaTeX and typographic characters, normalised; LaTeX spaces become thin spaces.
_SIGNS = str.maketrans("−﹣－–％⋅∕⁄", "----%·//")
_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_SUPERSCRIPT = re.compile(r"⁻?[⁰¹²³⁴-⁹]++")
_VULGAR = {char: " " + normalize("NFKC", char).replace("⁄", "/") for char in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
_COMMANDS = {
    r"\times": "×", r"\cdot": "×", r"\div": "÷", r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac",
    r"\left": "", r"\right": "", r"\quad": " ", r"\approx": "≈", r"\%": "%", r"\$": "$", r"\!": "", r"\,": "\u2009",
    r"\;": "\u2009", "\\ ": "\u2009", "{,}": ",", **_VULGAR,
}  # fmt: skip
_COMMAND = re.compile(
    rf"\\(?:times|cdot|div|[dtc]frac|left|right|quad|approx)(?![A-Za-z])|\\[%$!,; ]|\{{,\}}|[{''.join(_VULGAR)}]"
)
_BL = BLANK + "{0,3}"
_SPACED_MINUS = re.compile(rf"(?<==){_BL}-{BLANK}{{1,3}}(?=[0-9$.\\])")

_PLAIN = (
    r"(?>(?:[1-9][0-9]{0,2}(?:(?:,[0-9]{3})++|(?:[_'’\u00a0\u2009\u202f][0-9]{3})++)(?![0-9])|[0-9]++)(?:\.[0-9]++)?+"
    r"|(?<!\.)\.[0-9]++)"
)
_NUMERAL = re.compile(
    rf"""
    (?=[-+$€£¥₹.0-9\\])                                        # rejects most positions quickly
    (?<![A-Za-z0-9^])(?<![A-Za-z0-9)}}\]]_)(?<![\^_]\{{)(?<!\^-)(?<!\^\{{-)  # not in a word, a power or an index
    (?:(?<![_)}}\]])(?P<sign>[-+]))?(?:[$€£¥₹]{_BL})?(?P<inner>[-+])?
    (?:
        (?P<frac_whole>[0-9]++)?{_BL}\\frac{_BL}
        (?:\{{{_BL}(?P<top_sign>-)?(?P<top>{_PLAIN}){_BL}\}}{_BL}\{{{_BL}(?P<bottom>{_PLAIN}){_BL}\}}
            |(?P<top_digit>[0-9])(?P<bottom_digit>[0-9])(?![0-9]))
      | (?P<whole>[0-9]++)(?:[ ]and)?{BLANK}(?P<part>[0-9]++)/(?P<parts>[0-9]++)
      | (?P<over>{_PLAIN}){_BL}/{_BL}(?P<under>{_PLAIN})
      | (?:(?P<mantissa>{_PLAIN}){_BL}[×x*·]{_BL})?10(?:\^|\*\*)(?:\{{(?P<braced>-?[0-9]++)\}}|(?P<power>-?[0-9]++))
      | (?P<number>{_PLAIN})(?:[eE](?P<exponent>[-+]?[0-9]++))?+(?!(?:st|nd|rd|th)\b)
    )
    (?:{_BL}(?P<scale>thousand|million|billion|trillion)\b)?
    (?P<percent>{_BL}(?:%|per[ ]?cent\b))?
    """,
    re.VERBOSE | re.ASCII,
)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}

# Context in which a number is part of a larger expression, within a few characters.
_BEFORE = re.compile(
    rf"[0-9)}}%$]{_BL}(?:\*\*|[-+*/×÷·^—xX]){_BL}$"  # 5 + ·, (2)(3) / ·
    rf"|[A-Za-z](?:{BLANK}{{1,3}}[+*/×÷·]{BLANK}{{1,3}}|[+*/×÷·])$"  # x + ·, x/·; not a bullet, not **bold
    rf"|[0-9](?:[,.:'’]|{BLANK}{{1,3}})$"  # 3,·  1.2.·  3:·  1 ·
    rf"|(?:frac|sqrt|\}}|\])\{{{_BL}$"  # \sqrt{·
)
_AFTER = re.compile(rf"{_BL}(?:\^\{{?-?[0-9]|\*\*[0-9]|π|\\pi(?![A-Za-z])|\\sqrt)|[xX][0-9]")
_NEAR = 12

_HASHES = re.compile(r"####([^\n]*+)")
_HEADLINE = re.compile(rf"{_BL}[.):]{BLANK}{{1,3}}\S")
_SOON = r"(?:[^\w.!?]|_|\.(?=[0-9])){0,9}"
_ANSWER = re.compile(
    rf"\banswer\b[^.\n=:]{{0,40}}?(?:\bis\b|[=:])[\s*_$]{{0,9}}(?={_SOON}(?:[^\W\d_]{{1,15}}{_SOON})?[0-9])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|\Z)")
_GOES_ON = re.compile(r"[^,;()\n]{0,24}[-+*/×÷·=≈]{1,2}[\s$*]{0,3}")


def read_answer(text: str) -> int | float | str | None:
    """The number that `text` gives as its answer (see the module's docstring), as stored in `Result.value`, or None.

    An int if it is integral, else a float: `3/4` is 0.75. A percentage is a text, "20%", which matches 20 as well as
    0.2.
    """
    text = _normalise(text)
    box = last_box(text)
    if box is not None:
        return _value(box, _last_of(_NUMERAL, box))
    for segment in (_after_hashes(text), _after_answer(text)):
        if segment is not None:
            return _value(segment, _result_of(segment))
    return _value(text, _last_of(_NUMERAL, text))


def matches(value: int | float | str, answer: object) -> bool:
    """True if a value from `read_answer` is the expected answer.

    Numbers are compared as everywhere (`are_same` of tasks/evaluators/number.py). A percentage matches both the number
    before its sign and a hundredth of it; other texts are parsed if they are a single number. NaN, infinities, bools
    and numbers beyond ±1e300 never match.
    """
    expected = exact(answer)
    if expected is None:
        return False
    return any(are_same(meaning, expected) for meaning in _meanings(value))


def _normalise(text: str) -> str:
    """`text` with LaTeX and typographic characters normalised."""
    text = _COMMAND.sub(lambda command: _COMMANDS[command[0]], text.translate(_SIGNS))
    text = _SUPERSCRIPT.sub(lambda power: "^" + power[0].translate(_SUPERSCRIPTS), text)
    return _SPACED_MINUS.sub("-", text)


def _after_hashes(text: str) -> str | None:
    """The rest of the last line with `####` before a number; headlines such as "#### 2. Add" are skipped."""
    for hashes in reversed(list(_HASHES.finditer(text))):
        line = hashes[1]
        numeral = _NUMERAL.search(line)
        if numeral and not any(map(str.isalnum, line[: numeral.start()])) and not _HEADLINE.match(line, numeral.end()):
            return line
    return None


def _after_answer(text: str) -> str | None:
    """The text after the last "answer is" with a number close to it, to the end of its sentence."""
    marker = _last_of(_ANSWER, text)
    if marker is None:
        return None
    end = _SENTENCE_END.search(text, marker.end())
    sentence = text[marker.end() : end.start() if end else len(text)]
    return sentence if _NUMERAL.search(sentence) else None


def _last_of(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0] if last else None


def _result_of(segment: str) -> re.Match[str] | None:
    """The first number of the segment, or the result of a calculation that begins with it."""
    last: re.Match[str] | None = None
    for numeral in _NUMERAL.finditer(segment):
        if last and not _GOES_ON.fullmatch(segment, last.end(), numeral.start()):
            break
        last = numeral
    return last


def _value(text: str, numeral: re.Match[str] | None) -> int | float | str | None:
    """The value of a matched number; None if it is part of a larger expression."""
    if numeral is None or _is_partial(text, numeral):
        return None
    number = _number(numeral)
    recorded = None if number is None else _as_value(number)
    return f"{recorded}%" if recorded is not None and numeral["percent"] else recorded


def _is_partial(text: str, numeral: re.Match[str]) -> bool:
    before = text[max(0, numeral.start() - _NEAR) : numeral.start()]
    return bool(_BEFORE.search(before) or _AFTER.match(text, numeral.end()))


def _number(numeral: re.Match[str]) -> Fraction | None:
    """The exact value; None beyond LONGEST and for a division by 0."""
    if len(numeral[0]) > LONGEST:
        return None
    part = numeral.groupdict()
    if part["number"]:
        number = _scaled(part["number"], part["exponent"] or "0")
    elif part["power"] or part["braced"]:
        number = _scaled(part["mantissa"] or "1", part["power"] or part["braced"])
    elif part["over"]:
        number = _divided(part["over"], part["under"])
    elif part["whole"]:
        proper = _decimal(part["part"]) < _decimal(part["parts"])  # "2 48/6" is two numbers
        number = _divided(part["part"], part["parts"], part["whole"]) if proper else None
    else:
        top, bottom = part["top"] or part["top_digit"], part["bottom"] or part["bottom_digit"]
        number = _divided(top, bottom, part["frac_whole"] or "0")
    if number is None:
        return None
    minuses = [part["sign"], part["inner"], part["top_sign"]].count("-")
    return number * (-1 if minuses % 2 else 1) * _SCALES.get(part["scale"], 1)


def _scaled(digits: str, exponent: str) -> Fraction | None:
    if abs(int(exponent)) > LONGEST:
        return None
    return _decimal(digits) * Fraction(10) ** int(exponent)


def _divided(over: str, under: str, whole: str = "0") -> Fraction | None:
    """whole + over / under."""
    divisor = _decimal(under)
    return _decimal(whole) + _decimal(over) / divisor if divisor else None


def _decimal(digits: str) -> Fraction:
    return Fraction(re.sub(r"[^0-9.]", "", digits))


def _as_value(number: Fraction) -> int | float | None:
    """An int if integral, else the nearest float; None if that is 0 or beyond ±1e300."""
    if abs(number) >= _LARGEST:
        return None
    return int(number) if number.denominator == 1 else float(number) or None


def _meanings(value: int | float | str) -> list[Exact]:
    """The numbers that a value denotes: none, one, or two for a percentage."""
    if type(value) is not str:
        given = exact(value)
        return [] if given is None else [given]
    numeral = _NUMERAL.fullmatch(_normalise(value).strip())
    number = None if numeral is None else _number(numeral)
    written = None if number is None else exact(_as_value(number))
    if numeral is None or written is None:
        return []
    return [written, Exact(written.number / 100, written.short)] if numeral["percent"] else [written]
