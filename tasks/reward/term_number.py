"""Conversion of what a term of the reward returns to a float."""

import math
from decimal import Decimal
from numbers import Real
from typing import Any

LARGEST = 1e9
"""Largest absolute value of a term, so that weighted sums stay finite."""


def number(value: Any) -> float:
    """Convert a real number to float: a bool, a Fraction, a Decimal, a scalar of numpy or torch, an array without a
    dimension. Raises TypeError or ValueError for any other value."""
    scalar = value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
    if not isinstance(scalar, (Real, Decimal)):
        raise TypeError(f"it returned {_shown(value)}, a {type(value).__name__}, which is no number")
    try:
        converted = float(scalar)
    except (OverflowError, ValueError):  # 10**400, Decimal("sNaN")
        converted = math.inf
    if not abs(converted) <= LARGEST:  # true for NaN
        raise ValueError(f"it returned {_shown(value)}, not a number from {-LARGEST:g} to {LARGEST:g}")
    return converted


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of more than 4300 digits
        text = f"{type(value).__name__}(…)"
    return text if len(text) <= 40 else f"{text[:40]}…"
