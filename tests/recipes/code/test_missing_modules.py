"""Code under test that needs a module which the sandbox lacks is told so."""

from collections.abc import Iterator

import pytest

from recipes.code.harness.outcomes import (
    Outcome,
    UnitTests,
    imported_modules,
    make_test_sandbox,
    missing_modules,
    run_unit_tests,
)
from tasks.params.sections import SandboxParams
from tasks.programs.code_blocks import syntax_tree
from tasks.programs.sandbox.modules import MODULES
from tasks.programs.sandbox.sandbox import Sandbox

SANDBOX = SandboxParams(seconds=2.0, memory_mb=256, allow_weak=False)
TESTS = UnitTests("f", ("assert f(2) == 4", "assert f(3) == 6"))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with make_test_sandbox(SANDBOX) as running:
        yield running


CODES = {
    "import base64\ndef f(x): return 2 * len(base64.b64decode(base64.b64encode(b'a' * x)))": "",
    "from html import unescape\ndef f(x): return 2 * x": "",
    "import os.path, sys\ndef f(x): return 0": "",
    "import os.path, sys\ndef f(x): return 2 * x": "",
    "try:\n    import numpy\nexcept ImportError:\n    pass\ndef f(x): return 0": "",
    "import queue\ndef f(x): return 2 * x": "queue",
    "def f(x):\n    from numpy.linalg import det\n    return 2 * x": "numpy.linalg",
    "import heapq, logging as log\nclass A:\n    import base65\ndef f(x): return 2 * x": "logging",
    "def f(x) return": "",
}
"""Code under test → the module that its outcome names."""


def test_the_outcome_of_code_names_the_module_that_it_lacks(sandbox: Sandbox) -> None:
    outcomes = run_unit_tests(sandbox, [(code, TESTS) for code in CODES])
    for (code, module), outcome in zip(CODES.items(), outcomes, strict=True):
        assert outcome is not None
        if module:
            told = f"module {module} is not available in the sandbox; available: {', '.join(MODULES)}"
            assert outcome == Outcome(0, 2, told), code
        else:
            assert outcome.ending == "", code
    assert [outcome and outcome.passed for outcome in outcomes[:4]] == [2, 2, 0, 2]


def test_what_is_missing_is_what_a_program_cannot_import(sandbox: Sandbox) -> None:
    assert missing_modules(sandbox, [*MODULES, "sys", "io", "queue", "nothing.at.all"]) == {"queue", "nothing.at.all"}
    assert missing_modules(sandbox, []) == set()
    tree = syntax_tree("import a.b, c as d\nfrom e.f import g\nfrom . import h\ndef i():\n    if j: import k\n")
    assert sorted(imported_modules(tree)) == ["a.b", "c", "e.f", "k"]
