"""Instances of a law: every run tries the first, the nightly one all."""

from collections.abc import Iterable
from typing import Any

import pytest


def nightly_but_first(cases: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`; a case of several values is a tuple."""
    first, *others = cases
    return [first, *(pytest.param(*(c if isinstance(c, tuple) else (c,)), marks=pytest.mark.nightly) for c in others)]
