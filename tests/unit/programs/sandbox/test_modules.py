"""The modules that programs may import compute and do nothing else."""

import json
import subprocess
import sys

from tasks.programs.sandbox.modules import MODULES

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
