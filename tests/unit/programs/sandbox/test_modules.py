"""The modules that programs may import compute and do nothing else; code that needs another is told so."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tasks.params.sections import SandboxParams
from tasks.programs.code_blocks import syntax_tree
from tasks.programs.sandbox.modules import MODULES
from tasks.programs.sandbox.sandbox import Sandbox, make_sandbox
from tasks.programs.sandbox.unit_tests.missing_modules import imported_modules, missing_modules
from tasks.programs.sandbox.unit_tests.outcomes import Outcome, UnitTests, run_unit_tests

SANDBOX = SandboxParams(seconds=2.0, memory_mb=256, allow_weak=False)
TESTS = UnitTests("f", ("assert f(2) == 4", "assert f(3) == 6"))

REASONS = {
    "abc": "classes", "array": "numbers in memory", "ast": "parses a text", "base64": "bytes to letters and back",
    "binascii": "bytes to digits and back, checksums", "bisect": "search in a list", "cmath": "arithmetic",
    "collections": "containers", "collections.abc": "classes", "colorsys": "arithmetic", "contextlib": "wraps calls",
    "copy": "objects in memory", "csv": "splits lines that it is given; opens nothing", "dataclasses": "classes",
    "decimal": "arithmetic", "difflib": "compares sequences", "enum": "classes", "fractions": "arithmetic",
    "functools": "wraps calls", "graphlib": "orders a graph", "hashlib": "digests of bytes",
    "heapq": "order in a list", "hmac": "digests of bytes and a key that is given", "html": "replaces letters",
    "html.entities": "tables", "html.parser": "splits a text that it is given; loads nothing that it names",
    "ipaddress": "arithmetic with addresses; asks no network", "itertools": "iterators", "json": "texts",
    "keyword": "a table", "math": "arithmetic", "numbers": "classes", "operator": "calls", "pprint": "texts of objects",
    "re": "texts", "statistics": "arithmetic", "string": "texts", "struct": "bytes to numbers and back",
    "textwrap": "texts", "types": "classes", "typing": "classes", "unicodedata": "tables",
    "urllib.parse": "splits and joins addresses as texts; opens none", "zlib": "compresses bytes",
}  # fmt: skip
"""Why each is pure computation."""

REPLACED = {"calendar": "dates", "datetime": "reads the clock", "random": "seeded with 0", "time": "counted readings"}
"""What is not, with a clock and a seed that surroundings.py has replaced."""

IMPURE = {
    "_ctypes", "_multiprocessing", "_posixsubprocess", "_socket", "_ssl", "asyncio", "ctypes", "fcntl", "logging",
    "mmap", "multiprocessing", "pathlib", "pickle", "queue", "secrets", "select", "selectors", "shutil", "socket",
    "ssl", "subprocess", "sysconfig", "tempfile", "threading", "urllib.request", "uuid",
}  # fmt: skip
_CLOSURE = """
import importlib, json, sys, time
before = set(sys.modules)
importlib.import_module(sys.argv[1])
new = sorted(set(sys.modules) - before)
clocks = [m for m in new for v in vars(sys.modules[m]).values() if v is time or getattr(v, "__module__", "") == "time"]
print(json.dumps([new, clocks]))
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with make_sandbox(SANDBOX) as running:
        yield running


def test_every_module_has_a_reason() -> None:
    assert sorted(MODULES) == sorted([*REASONS, *REPLACED])
    assert IMPURE.isdisjoint(MODULES)


def closure_of(module: str) -> tuple[set[str], list[str]]:
    """The modules that importing one loads, in a bare interpreter, and those of them that hold a clock."""
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _CLOSURE, module], capture_output=True, text=True, check=True
    )
    loaded, clocks = json.loads(told.stdout)
    return set(loaded), clocks


def test_a_pure_module_loads_none_that_is_not() -> None:
    for module in ("base64", "csv", "graphlib", "hmac", "html.parser", "ipaddress", "urllib.parse"):
        loaded, clocks = closure_of(module)
        assert module in loaded
        assert loaded.isdisjoint(IMPURE), module
        assert clocks == [], module
    for module in ("queue", "logging"):  # the same test tells why these two are left out
        loaded, clocks = closure_of(module)
        assert loaded & IMPURE
        assert clocks


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
