"""The number read from a text: a table of cases, all of GSM8K, and laws; which numbers count as equal."""

import math
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluators.numerals import LONGEST, matches, read_answer
from tasks.records.programs import Result

# fmt: off
READ: dict[str, int | float | str] = {
    # forms of a number
    "72": 72, "+72": 72, "-5": -5, "−5": -5, "–5": -5, "(-5)": -5, "x = - 5": -5, "-0": 0, "007": 7, "0.5": 0.5,
    ".5": 0.5, "-.5": -0.5, "72.": 72, "12.0": 12, "12.50": 12.5, "...5": 5, "1,234": 1234,
    "1,234,567.89": 1234567.89, "1_000": 1000, "1'234": 1234, "1\u202f234\u202f567": 1234567, "1{,}234": 1234,
    r"1\,234": 1234, r"1\;234\ 567": 1234567, "3/4": 0.75, "-3/4": -0.75, "48 / 2": 24, "6/3": 2, "1/3": 1 / 3,
    "1 1/2": 1.5, "-1 1/2": -1.5, "1 and 1/2": 1.5, "½": 0.5, "1½ cups": 1.5, "1/4th": 0.25, r"\frac{3}{4}": 0.75,
    r"\dfrac{ 1,000 }{4}": 250, r"-\frac{3}{4}": -0.75, r"\frac{-3}{4}": -0.75, r"\frac34": 0.75,
    r"1\frac{1}{2}": 1.5, "20%": "20%", "12.50 %": "12.5%", "-5%": "-5%", "1/2%": "0.5%", r"20\%": "20%",
    r"$20\,\%$": "20%", "20 percent": "20%", "20 per cent": "20%", "1.5e3": 1500, "1.5E+3": 1500, "5e-1": 0.5,
    "1.5 × 10^3": 1500, "1.5 x 10^-3 m": 0.0015, r"$1.5 \times 10^{3}$": 1500, r"2\cdot10^{-1}": 0.2, "2·10³": 2000,
    "2*10**3": 2000, "10^3": 1000, "2 million": 2000000, "$1.5 million": 1500000,
    # text around it
    "$12": 12, "-$12": -12, "$-12": -12, "€ 3.50": 3.5, "US$5": 5, "12 dollars": 12, "50 cents": 50, "$12/hour": 12,
    "72 km": 72, "72km": 72, "60 km/h": 60, "72 m^2": 72, "72 m²": 72, "72 m^{-2}": 72, r"72^\circ": 72,
    r"72\text{ apples}": 72, r"\text{apples: }72": 72, "$72$": 72, r"\(72\)": 72, r"\$1,234.50": 1234.5,
    "**72**": 72, "_72_": 72, "[72]": 72, "'72'": 72, "答案是72个": 72, "x_1 = 5": 5, "covid-19": 19, "- 5 apples": 5,
    "a) -5": -5, "72 on the 3rd day": 72, "72 for the 1,000th guest": 72,
    # the last number, and calculations to their end
    "She had 5, then 8.": 8, "so 5 + 3 = 8 apples.": 8, "48 clips in April and 24 in May, 72 altogether": 72,
    "12 x 2 = <<12*2=24>>24 pages": 24, "72 apples in 3 boxes": 3,
    # after "answer is"
    "The answer is 72 apples.": 72, "The answer is 72. I checked it 3 times.": 72,
    "The answer is 72 apples in 3 boxes.": 72, "The answer is 72 (see page 3).": 72,
    "The answer is 72, because 5 + 67 = 72 and not 71.": 72, "The answer to question 3 is 72": 72,
    "The final answer is $5 + 3 = 8$, of 9.": 8, "answer is 5 apples + 3 apples = 8 apples of 9": 8,
    "**Answer:** 72\n\nCheck: 5": 72, "Answer:\n72\n1 line": 72, "answer = -72, 5": -72,
    "The answer is 5. No, the answer is 6. Not 7": 6, "The answer is below.\n8": 8, "The answer is approx. 72": 72,
    "The answer is about 72, give or take 3.": 72, "The answer is x = 72, not y = 3": 72,
    r"The answer is \frac{3}{4} of 5": 0.75, "The answer is -.5 or so, in 3 steps": -0.5,
    "The answer, which is the sum of 5 and 67, is 72. Not 3.": 72,
    "The answer is 72. My answer is right. 3 checks.": 72,
    "The answer is found by adding 5 and 3, which makes 8.": 8,
    # after ####
    "#### 72": 72, "####72 apples in 3 boxes": 72, "#### **$1,234.50**": 1234.5, "#### 5 + 3 = 8\n9": 8,
    "The answer is 5.\n#### 72\nor 6": 72, "#### 5\n#### 6\n7": 6, "#### Step 2: add\nIt is 12": 12,
    "#### 2. Add\nIt is 12": 12, "#### 72\n#### 2) Check\n6": 72, "#### 72.": 72,
    # boxes
    r"\boxed{72}": 72, r"\boxed{72}, not 5. The answer is 6. #### 7": 72, r"\boxed{5} or \boxed{72} or 6": 72,
    r"\boxed{\boxed{72}} 5": 72, r"\boxed{\frac{3}{4}} 5": 0.75, r"\boxed{-\dfrac{\,3}{4}} 5": -0.75,
    r"\boxed{x = {72}} 5": 72, r"\boxed{\{72\}} 5": 72, r"\boxed{5 + 3 = 8} 9": 8, r"\boxed{72\text{ km}^2} 5": 72,
    r"\boxed{20\%} 5": "20%", r"$\boxed{20}\%$ of 5": "20%", r"\fbox{72} 5": 72, r"\boxed{72 \{ } 5": 72,
    r"\boxed{5} and \boxed{72": 5, r"only \boxed{72": 72,
}
# fmt: on

# fmt: off
NOTHING = [
    "", "no number", "seventy-two", "٧٢", "²", "H2O", "m^2", "m^-5", "x_1", "the 3rd", "the 1,000th", "5 + 3",
    "8 = 5 + 3", "5+3", "5 -3", "5 - 3", "5 × -3", r"2 \cdot 3", "x + 3", "2 48/6", "1 000 000", "0,500", "3⋅4",
    "(5+3)*2", "2x3", "8^2", "8²", "2 ** 10", r"2^{10}", r"\sqrt{2}", r"\sqrt[3]{8}", r"2\sqrt{3}", r"4\pi", "4π",
    r"\frac{x}{4}", r"\frac{1+2}{4}", "3-5", "3–5", "3/4/2024", "2024-05-03", "3:45", "3,50", "1,2,3", "(3,4)",
    "1,00,000", "1.2.3", "3/0", r"\frac{3}{0}", "0/0", r"72 \boxed{}", r"72 \boxed{x}", "#### 5 + 3\n72", "inf",
    "nan", "9" * (LONGEST + 1), "1e301", "9" * 290 + "e20", "1e5000", "1e-5000", "-1e" + "9" * 5000, "10^5000",
    "." + "0" * 290 + "1e-300",
]
# fmt: on


@pytest.mark.parametrize("text", [*READ, *NOTHING], ids=lambda text: repr(text)[:30])
def test_read(text: str) -> None:
    value, expected = read_answer(text), READ.get(text)
    assert value == expected
    assert type(value) is type(expected)


NUMBERS = st.decimals(-(10**8), 10**8, places=3).map(lambda number: number.normalize() + 0)
STYLES: dict[str, Callable[[Decimal], str]] = {
    "plain": lambda n: f"{n:f}", "zeros": lambda n: f"{n:.5f}", "thousands": lambda n: f"{n:,f}",
    "underscores": lambda n: f"{n:,f}".replace(",", "_"), "apostrophes": lambda n: f"{n:,f}".replace(",", "’"),
    "thin spaces": lambda n: f"{n:,f}".replace(",", "\u2009"),
    "latex": lambda n: "$" + f"{n:,f}".replace(",", "{,}") + "$",
    "latex thin spaces": lambda n: f"{n:,f}".replace(",", r"\,"),
    "typographic minus": lambda n: f"{n:f}".replace("-", "−"), "dollars": lambda n: f"${n:,f}",
    "sign before the currency": lambda n: f"{'-' if n < 0 else ''}€{abs(n):,f}", "unit": lambda n: f"{n:f} km",
    "scientific": lambda n: f"{n:e}",
    "power of ten": lambda n: f"{n:e}".replace("e+", " × 10^").replace("e-", " × 10^-"),
    "latex power of ten": lambda n: f"{n:e}".replace("e+", r" \times 10^{").replace("e-", r"\times10^{-") + "}",
    "thousandths": lambda n: f"{n * 1000:f}/1000", "latex fraction": lambda n: rf"\frac{{{n * 1000:f}}}{{1000}}",
    "millions": lambda n: f"{n / 10**6:f} million", "hashes": lambda n: f"It is 5.\n#### {n:,f}",
    "box": lambda n: rf"5 \boxed{{{n:f}}} 6",
    "sentence": lambda n: f"Since 5 + 3 = 8, the answer is {n:,f} apples. I am 99% sure.",
    "equation": lambda n: f"5 × 3 = {n:f}",
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@given(number=NUMBERS)
def test_a_number_is_read_however_it_is_written(style: str, number: Decimal) -> None:
    value = read_answer(STYLES[style](number))
    assert isinstance(value, int | float)
    assert value == (int(number) if number == int(number) else float(number))
    assert isinstance(value, int) == (number == int(number))
    assert matches(value, float(number))
    assert matches(STYLES["plain"](number), float(number))
    assert not matches(value, float(number + Decimal("0.001")))


# fmt: off
RIGHT = [
    (72, 72.0), ("72", 72), ("$1,200.50", 1200.5), (" 3/4 ", 0.75), (0.1 + 0.2, 0.3), ("1/3", 1 / 3),
    ("33.333333%", 1 / 3), ("20%", 20), ("20%", 0.2), ("0.5%", 0.005), (10**299, 10**299), (-0.0, 0),
]
WRONG = [
    (72.000001, 72), (0.33, 1 / 3), (10**15 + 1, 1e15), (0.2, 20), (20, 0.2), ("20%", 2000), ("20%", 0.002),
    ("72 pens", 72), ("5 + 3", 8), ("x", 0), ("", 0), ("%", 0), (True, 1), (1, True), (math.nan, math.nan),
    (math.inf, math.inf), (math.inf, 1e308), (5, math.nan), ("nan", math.nan), ("inf", math.inf), (10**5000, 1.0),
    (1.0, 10**5000), (1e300, 1e300), ("9" * 10**6, 1), ("1e" + "9" * 10**6, 1), (None, 0), ([72], 72), (72, "72"),
]
# fmt: on


def name_of(value: object) -> str:
    huge = isinstance(value, int) and abs(value) > 10**20
    return "huge" if huge else repr(value)[:20]


CASES = [*((*case, True) for case in RIGHT), *((*case, False) for case in WRONG)]


@pytest.mark.parametrize(("value", "answer", "equal"), CASES, ids=name_of)
def test_equal_numbers_match(value: int | float | str, answer: int | float, equal: bool) -> None:
    assert matches(value, answer) == equal


TOKENS = [*"0123456789,.$€%-+/*^{}()[]_=:#x× \n½²⁻−", "10^", "e", "\\frac", "\\boxed{", "\\", "####", "answer is "]
TOKENS += ["million", "th", "percent", "123", ",456", "\\times", "\\pi", "\u00a0", "<answer>"]
NASTY = ["9", "1,", "1,000", "1.", "1 ", "1/", "1/2 ", "1 1/2 ", "5 + ", "-", "$ ", " ", "1e", "10^", "½", "²", "(1"]
NASTY += ["{", "}", "\\", "\\boxed{", "\\boxed{1}", "\\frac{", "\\frac{1}{2}", "####", "#### 1\n", "#### a 1\n"]
NASTY += ["1 million ", "answer is ", "answer: 1\n", "answer: 1. ", "**1**", "_1", "1)"]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(TOKENS), max_size=40).map("".join))


@given(TEXTS, st.one_of(st.integers(), st.floats()))
def test_any_text_gives_a_value_that_a_result_can_hold(text: str, answer: int | float) -> None:
    value = read_answer(text)
    held = Result(status="ok", value=value)
    assert Result.model_validate_json(held.model_dump_json()) == held
    assert matches(text, answer) in (False, True)
    if value is not None:
        assert matches(value, answer) in (False, True)
    if isinstance(value, str):
        assert value.endswith("%")
        assert read_answer(value) == value
        assert matches(value, float(value[:-1]))
    elif value is not None:
        assert abs(value) < 1e300
        assert matches(value, value)


@pytest.mark.parametrize("piece", NASTY)
def test_nasty_text_is_read_in_linear_time(piece: str) -> None:
    nasty = piece * (50_000 // len(piece))
    for text in (nasty, f"answer is {nasty}", f"\\boxed{{{nasty}}}"):
        assert isinstance(read_answer(text), int | float | str | None)
        assert matches(text, 1) in (False, True)
