"""Small modules in place of numpy and pytest, with what tests of public data sets use. Standard library only."""

import math
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

from tasks.programs.sandbox.unit_tests.cases import parameters_in


def stand_ins() -> dict[str, types.ModuleType]:
    """The modules by name."""
    numpy, pytest = types.ModuleType("numpy"), types.ModuleType("pytest")
    vars(numpy).update(allclose=_allclose, ndarray=_Array, float32=_Array, float64=_Array)
    vars(pytest).update(raises=_Raises, approx=_Approx, mark=types.SimpleNamespace(parametrize=_parametrize))
    return {"numpy": numpy, "pytest": pytest}


class _Array:
    """No value here is one."""


def _allclose(first: Any, second: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        pairs = zip(first, second, strict=True)
        return all(_allclose(one, other, rtol, atol) for one, other in pairs)
    return bool(first == second or (math.isfinite(second) and abs(first - second) <= atol + rtol * abs(second)))


class _Raises:
    """`pytest.raises` as a context."""

    value: BaseException

    def __init__(self, expected: Any, match: str | None = None) -> None:
        self._expected, self._match = expected, match

    def __enter__(self) -> "_Raises":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        assert error is not None, "nothing was raised"
        self.value = error
        is_expected = isinstance(error, self._expected)
        assert not is_expected or self._match is None or re.search(self._match, str(error))
        return is_expected


class _Approx:
    """`pytest.approx` of a number, or of a list, tuple or dict of numbers."""

    __hash__ = None  # type: ignore[assignment] # as pytest's

    def __init__(self, expected: Any, rel: float = 1e-6, abs: float = 1e-12) -> None:
        self._expected, self._rel, self._abs = expected, rel, abs

    def __eq__(self, other: object) -> bool:
        return self._is_near(other, self._expected)

    def _is_near(self, given: Any, expected: Any) -> bool:
        if isinstance(expected, dict):
            return given.keys() == expected.keys() and all(self._is_near(given[key], expected[key]) for key in expected)
        if isinstance(expected, list | tuple):
            return (
                type(given) is type(expected)
                and len(given) == len(expected)
                and all(map(self._is_near, given, expected))
            )
        if isinstance(expected, bool) or not isinstance(given, int | float | complex):
            return bool(given == expected)
        return bool(given == expected or abs(given - expected) <= max(self._abs, self._rel * abs(expected)))


def _parametrize(names: str | Sequence[str], cases: Sequence[Any]) -> Callable[[Any], Any]:
    listed = parameters_in(names) if isinstance(names, str) else list(names)

    def decorate(test: Any) -> Any:
        rows = [dict(zip(listed, case if len(listed) > 1 else (case,), strict=True)) for case in cases]
        before: Sequence[dict[str, Any]] = getattr(test, "cases", ({},))
        test.cases = [{**others, **row} for others in before for row in rows]
        return test

    return decorate
