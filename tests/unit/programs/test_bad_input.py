"""Any source has a status: nothing that reads a workflow's code raises, on the host or in the sandbox."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.programs.code_blocks import code_of
from tasks.programs.contract import HEADER, workflow_id
from tasks.programs.sandbox.determinism import may_differ
from tasks.programs.sandbox.plain_programs import is_plain
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records.programs import Result

SOLVE = "def solve(problem):\n    return "
NO_SOLVE = "NameError: the program defines no function solve(problem)"
TOO_LONG = "source: over 20000 bytes"
NOT_TEXT = "source: not Unicode text"
BAD = {
    "empty": ("", NO_SOLVE), "blank": (" \n\t\n", NO_SOLVE),
    "no solve": ("def answer(problem):\n    return 1\n", NO_SOLVE),
    "solve is no function": ("solve = 'me'\n", NO_SOLVE),
    "solve takes nothing": ("def solve():\n    return 1\n", "TypeError: solve() takes 0 positional arguments but 1"),
    "surrogates alone": ("\ud800" * 100, NOT_TEXT),
    "bytes that were not UTF-8": (b"\xff\xfe\x00".decode("utf-8", "surrogateescape"), NOT_TEXT),
    "NUL in a text": (SOLVE + "'\0'", "SyntaxError: source code "),
    "byte order mark": ("\ufeff" * 2 + SOLVE + "1", "SyntaxError: invalid non-printable character U+FEFF"),
    "20,001 bytes": ("#" * 20_001, TOO_LONG), "20,001 bytes of two": ("#" + "é" * 10_000, TOO_LONG),
    "5,000 closed": (SOLVE + "(" * 5000 + ")" * 5000, "SyntaxError: too many nested parentheses"),
    "minus": (SOLVE + "-" * 19_000 + "1", "SyntaxError: too deeply nested"),
    "hexadecimal digits": (SOLVE + "0x" + "f" * 19_000, "returned a number of over 100 digits"),
    "lambdas": (SOLVE + "lambda:" * 2500 + "1", ""), "comparisons": (SOLVE + "1" + "<2" * 9000, "returned bool"),
    "tabs and spaces": ("def solve(p):\n\tif 1:\n        return 1\n", "TabError: "),
}  # fmt: skip
"""Others, deeper and longer, are among the attacks."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(5.0, 256, allow_weak=False, workers=2) as running:
        yield running


def test_each_has_a_status_with_a_reason_and_the_others_continue(sandbox: Sandbox) -> None:
    good = Program(HEADER + "    return n[0]\n", ("3 pens",))
    bad = [Program(code, ("3 pens", "4 pens")) for code, _ in BAD.values()]
    found = sandbox.run([program for each in bad for program in (each, good)])
    assert found[1::2] == [[Result(status="ok", value=3)]] * len(BAD)
    for (name, (_, reason)), results in zip(BAD.items(), found[::2], strict=True):
        assert {result.status for result in results} == {"error"}, name
        assert all(str(result.error).startswith(reason) for result in results), (name, results)


@pytest.mark.parametrize("name", BAD)
def test_nothing_on_the_host_raises(name: str) -> None:
    code = BAD[name][0]
    assert all(check(code) in (True, False) for check in (is_plain, may_differ))
    assert len(workflow_id(code)) == 16
    assert code_of(code_of(code)) == code_of(code)


@given(st.lists(st.text(st.characters(), max_size=60), min_size=10, max_size=20))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_has_a_status(sandbox: Sandbox, texts: list[str]) -> None:
    codes = [start + text for text in texts for start in ("", SOLVE, HEADER + "    return ")]
    for code in codes:
        assert (type(is_plain(code)), type(may_differ(code)), len(workflow_id(code))) == (bool, bool, 16)
    assert len(sandbox.run([Program(code, ("3 pens", code)) for code in codes])) == len(codes)
