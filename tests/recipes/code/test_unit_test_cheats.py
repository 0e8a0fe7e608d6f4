"""No program passes unit tests without solving them, and each ends within the limits."""

from collections.abc import Iterator

import pytest

from recipes.code.harness.outcomes import Outcome, UnitTests, run_unit_tests
from recipes.code.harness.processes import TestProcesses
from tasks.programs.sandbox.sandbox import Sandbox
from tests.support.cheats import CHEATS, CHECK, LIST


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(0.3, 256, allow_weak=False, workers=1, service=TestProcesses) as made:
        yield made


def test_there_are_at_least_forty_different_cheats() -> None:
    assert len({code for _, code in CHEATS}) == len(CHEATS) >= 40


@pytest.mark.parametrize(("name", "code"), CHEATS, ids=[name for name, _ in CHEATS])
def test_a_cheat_fails(sandbox: Sandbox, name: str, code: str) -> None:
    for outcome in run_unit_tests(sandbox, [(code, LIST), (code, CHECK)]):
        assert outcome is not None, name
        assert outcome.passed == 0, (name, outcome)


def test_an_exception_does_not_end_the_loop_of_a_test(sandbox: Sandbox) -> None:
    tests = UnitTests("f", ("assert all(map(f, [1, 2]))", "assert list(map(f, [1, 2])) == []"))
    for name in ("StopIteration", "StopAsyncIteration"):
        assert run_unit_tests(sandbox, [(f"def f(x): raise {name}", tests)]) == [Outcome(0, 2)]


def test_after_all_of_them_a_solution_still_passes(sandbox: Sandbox) -> None:
    code = "def double(x): return x + x"
    assert run_unit_tests(sandbox, [(code, LIST), (code, CHECK)]) == [Outcome(3, 3), Outcome(3, 3)]


def test_the_tests_are_nowhere_in_the_memory_of_the_program_under_test() -> None:
    code = "\n".join(
        [
            "import gc, sys",
            "def double(x):",
            "    seen, todo = set(), [*gc.get_objects(), sys.modules]",
            "    while todo:",
            "        each = todo.pop()",
            "        if id(each) in seen: continue",
            "        seen.add(id(each))",
            "        if type(each) in (str, bytes) and '== 54321' in str(each)[::-1]: return x + x",
            "        todo += gc.get_referents(each)",
            "    return None",
        ]
    )
    secret = UnitTests("double", ("assert double(3) == 6 or 12345 == 1", "assert double(4) == 8 or 12345 == 2"))
    seconds = 5.0  # it looks at some 10^5 objects
    with Sandbox(seconds, 256, allow_weak=False, workers=1, service=TestProcesses) as sandbox:
        assert run_unit_tests(sandbox, [(code, secret)] * 2) == [Outcome(0, 2)] * 2
