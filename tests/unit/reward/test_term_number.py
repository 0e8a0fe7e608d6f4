"""Law: a term's value is the number that Python, numpy, torch or decimal means by it; anything else is refused."""

from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from tasks.reward.term_number import LARGEST, number


class Mark(IntEnum):
    """A subclass of int."""

    GOOD = 3


class Text(str):
    """A subclass of str."""


NUMBERS = [
    *[(True, 1.0), (Mark.GOOD, 3.0), (-2, -2.0), (0.25, 0.25), (Fraction(1, 4), 0.25), (Decimal("0.25"), 0.25)],
    *[(kind(3), 3.0) for kind in (np.int8, np.uint64, np.float16, np.float32, np.float64, np.longdouble)],
    *[(np.bool_(True), 1.0), (np.array(0.25), 0.25), (np.array(True), 1.0), (np.float32(0.25).reshape(()), 0.25)],
    *[(torch.tensor(0.25, dtype=kind), 0.25) for kind in (torch.float16, torch.bfloat16, torch.float64)],
    *[(torch.tensor(True), 1.0), (torch.tensor(3), 3.0), (torch.tensor(0.25, requires_grad=True), 0.25)],
    *[(LARGEST, LARGEST), (-LARGEST, -LARGEST), (Decimal("-1e9"), -LARGEST)],
]


@pytest.mark.parametrize(("value", "expected"), NUMBERS, ids=repr)
def test_a_scalar_of_any_library_is_a_number(value: Any, expected: float) -> None:
    converted = number(value)
    assert (type(converted), converted) == (float, expected)


NO_NUMBERS = [
    *[None, "0.5", Text("1"), b"1", 1j, np.complex128(1), np.array(1j), torch.tensor(1j), np.array("1"), np.str_("1")],
    *[[0.5], (0.5,), {}, {"score": 1}, np.array([0.5]), np.array([]), torch.tensor([0.5]), torch.zeros(0), object()],
    *[float, Decimal, Ellipsis, np.datetime64("2026-01-01"), (value for value in (0.5,))],
]
OUTSIDE = [
    *[float("nan"), float("inf"), -float("inf"), 2e9, -(10**400), 10**5000, Fraction(10**400)],
    *[Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999999"), Decimal("1e10")],
    *[np.float32("nan"), np.float16("inf"), np.array(np.nan), torch.tensor(float("inf")), torch.tensor(float("nan"))],
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: repr(value)[:20])
def test_anything_else_is_named_with_its_type(value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^it returned .*, a {type(value).__name__}, which is no number$"):
        number(value)


@pytest.mark.parametrize("value", OUTSIDE, ids=lambda value: type(value).__name__)
def test_a_number_that_would_spoil_a_sum_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^it returned .*, not a number from -1e\+09 to 1e\+09$") as error:
        number(value)
    assert len(str(error.value)) < 100
