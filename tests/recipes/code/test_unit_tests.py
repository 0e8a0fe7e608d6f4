"""Unit tests in answers: what is read, refused and shown; counted tests of every published form."""

from collections.abc import Iterator

import pytest

from recipes.code.evaluator import parse, score
from recipes.code.harness.outcomes import Outcome, UnitTests, run_unit_tests
from recipes.code.harness.processes import TestProcesses
from tasks.programs.code_blocks import shown_tests
from tasks.programs.sandbox.sandbox import Sandbox
from tasks.records.programs import CheckVerdict
from tests.support.tiers import nightly_but_first

REFUSED = {
    "a text, not unit tests": "text",
    "entry_point: '2' is no name of a function": {"entry_point": "2", "hidden": ["assert f(1)"]},
    "no test is hidden; add one that is not shown": {"entry_point": "f", "shown": ["assert f(1)"]},
    "hidden: an integer, not a list of texts": {"entry_point": "f", "hidden": 3},
    "shown: not Python: invalid syntax": {"entry_point": "f", "hidden": ["assert f(1)"], "shown": ["assert f("]},
}


SHARES = {(5, 5, 1, 1): 1, (5, 5, 0, 0): 1, (5, 5, 0, 1): 1, (3, 5, 1, 1): 0.6, (0, 5, 1, 1): 0, (0, 0, 1, 1): 0}
"""(hidden tests passed, hidden, shown passed, shown) → share: shown ones are not counted."""


def test_the_share_is_that_of_the_hidden_tests() -> None:
    for (passed, hidden, shown_passed, shown), share in SHARES.items():
        verdict = CheckVerdict(hidden_passed=passed, hidden=hidden, shown_passed=shown_passed, shown=shown)
        assert score(verdict, None) == share


@pytest.mark.parametrize(("reason", "answer"), REFUSED.items())
def test_what_is_no_unit_test_is_refused(reason: str, answer: object) -> None:
    with pytest.raises(ValueError, match=reason.split(":")[0]):
        parse(answer)  # type: ignore[arg-type]


def test_tests_are_found_in_docstrings_and_statements() -> None:
    text = """Twice x.
    >>> f([1, 2])
    [2, 4]
    >>> f('é')  # a text (of one letter)
    'éé'
    f(3) == 6
    f("a") ➞ "aa"
    f(y) == 2
    >>> y = f(1)
    assert f(0) == 0
    """
    assert shown_tests(text) == [
        "assert f([1, 2]) == [2, 4]",
        "assert f('é') == 'éé'",
        "assert f(3) == 6",
        'assert f("a") == "aa"',
        "assert f(0) == 0",
    ]


CODE = "class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\ndef f(x): return 2 * x\n"
CODE += (
    "def g(p): return p.a + p.b\ndef h(x): raise ValueError('no')\ndef total(d): return {k: (v,) for k, v in d.items()}"
)
FORMS = {
    "statements": (("assert f(1) == 2", "assert f('a') == 'aa'"), 2),
    "check": (("def check(candidate):\n    assert candidate(1) == 2\n    assert True\n    assert f(2) == 4\n",), 2),
    "a loop": (("def check(candidate):\n    for x in range(5):\n        assert candidate(x) == x + x\n",), 5),
    "a comparison of its own": (
        (
            "import numpy as np\ndef same(out, exp, atol):\n    assert np.allclose(out, exp, rtol=1e-7, atol=atol)\n"
            "def check(candidate):\n    for x in ([1], [2.5]):\n        same(candidate(x), x + x, 1e-6)\n",
        ),
        2,
    ),
    "objects of the code": (("assert g(Pair(1, 2)) == 3",), 1),
    "exceptions": (("try:\n    h(1)\nexcept ValueError:\n    raised = True\nassert raised",), 1),
    "a module that is not imported": (("assert math.isclose(f(0.1), 0.2)",), 1),
    "check without a parameter": (("def check():\n    assert f(1) == 2\n    assert f(2) == 4\n",), 2),
    "a call of check": (("def check(candidate):\n    assert candidate(1) == 2\ncheck(f)\n",), 1),
    "check with a default": (("def check(candidate, extra=1):\n    assert candidate(extra) == 2\n",), 1),
    "a main program": (("if __name__ == '__main__':\n    assert f(1) == 2\n    assert f(2) == 4\n",), 2),
    "candidate": (("assert candidate(2) == 4",), 1),
    "a module of the solution": (("from solution import f as twice\nassert twice(2) == 4",), 1),
    "another module of it": (("import main, math\nassert main.f(2) == math.sqrt(16)",), 1),
    "a package": (("from .twice import *\nassert f(2) == 4",), 1),
    "pytest": (
        (
            "import pytest\nfrom solution import *\ndef test_f():\n    assert f(2) == pytest.approx(4.0000001)\n"
            "def test_raises():\n    with pytest.raises(ValueError, match='no'):\n        h(1)\n"
            "@pytest.mark.parametrize('x, y', [(1, 2), (2, 4)])\ndef test_more(x, y): assert f(x) == y\n"
            "def test_given(candidate): assert candidate([1]) == [1, 1]\n"
            "class TestF:\n    def setup_method(self): self.x = 2\n    def test_it(self): assert f(self.x) == 4\n",
        ),
        6,
    ),
    "unittest": (
        (
            "import unittest\nclass Base(unittest.TestCase):\n    def setUp(self): self.x = 2\n"
            "class TestF(Base):\n    def test_f(self): self.assertEqual(f(self.x), 4)\n    def test_many(self):\n"
            "        for x in (1, 2):\n            with self.subTest(x=x): self.assertEqual(f(x), 2 * x)\n"
            "    def test_raises(self):\n        with self.assertRaisesRegex(ValueError, 'no'): h(1)\n"
            "if __name__ == '__main__':\n    unittest.main()\n",
        ),
        3,
    ),
    "dicts and tuples": (("assert total({'a': 1, 2: None}) == {'a': (1,), 2: (None,)}",), 1),
}  # fmt: skip


BY_AN_ADDRESS = "import ctypes\nplace = ctypes.addressof(ctypes.c_int()) // 4096 % 997\ndef f(x): return x <= place\n"
"""Passes as many tests as an address says, which is another one in each run."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2.0, 256, allow_weak=False, workers=1, service=TestProcesses) as made:
        yield made


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_tests_passes_and_is_counted(sandbox: Sandbox, form: str) -> None:
    texts, count = FORMS[form]
    good, bad = run_unit_tests(sandbox, [(CODE, UnitTests("f", texts)), ("f = g = h = None", UnitTests("f", texts))])
    assert good == Outcome(count, count)
    assert bad is not None
    assert bad.passed == 0


BIG = "def f(n): return 7 ** n\ndef g(n): return [str(7 ** n)]\ndef length(n): return len(str(n))"
TOO_LONG = UnitTests(
    "f",
    ("assert f(20_000) == 7 ** 20_000", "assert g(9_000) == [str(7 ** 9_000)]", "assert length(7 ** 9_000) > 4_300"),
)


def test_integers_may_have_more_digits_than_python_prints(sandbox: Sandbox) -> None:
    own_process = f"import sys\n{BIG}"
    assert run_unit_tests(sandbox, [(BIG, TOO_LONG), (own_process, TOO_LONG)]) == [Outcome(3, 3)] * 2


LOOPS = {
    "asserts": "def check(candidate):\n    for x in range(30):\n        assert candidate(x) == 2 * x\n",
    "comparisons": "def same(a, b):\n    assert a == b\ndef check(candidate):\n    for x in range(30):\n"
    "        same(candidate(x), 2 * x)\n",
    "no loop of its own": "import pytest\n@pytest.mark.parametrize('x', range(30))\n"
    "def test_f(x):\n    assert f(x) == 2 * x\n",
}
EARLY = ["import os; os._exit(0)", "while True: pass", "raise SystemExit"]
"""Ends at the first test that it cannot pass."""


@pytest.mark.parametrize("form", nightly_but_first(LOOPS))
def test_a_program_that_ends_early_passes_no_more_of_a_loop_than_one_that_is_wrong(form: str) -> None:
    wrong = "def f(x): return 2 * x if x < 3 else 0"
    early = [f"def f(x):\n    if x < 3: return 2 * x\n    {ending}" for ending in EARLY]
    codes = ["def f(x): return x + x", wrong, *early]
    known, unknown = (UnitTests("f", (LOOPS[form],), counts=counts) for counts in ((30,), ()))
    with Sandbox(0.3, 256, allow_weak=False, workers=1, service=TestProcesses) as sandbox:
        outcomes = run_unit_tests(sandbox, [(code, tests) for code in codes for tests in (known, unknown)])
    counts = [outcome and outcome[:2] for outcome in outcomes]
    assert counts[:4] == [(30, 30), (30, 30), (3, 30), (3, 30)]
    assert counts[4::2] == [(3, 30)] * 3
    assert [passed for passed, _ in filter(None, counts[5::2])] in ([0, 0, 0], [0, 0, 3])


def test_fewer_tests_than_the_solution_had_are_no_pass(sandbox: Sandbox) -> None:
    pairs = UnitTests("f", ("for x, y in zip(f(3), [1, 2, 3]):\n    assert x == y\n",), counts=(3,))
    codes = ["def f(n): return list(range(1, n + 1))", "def f(n): return []", "def f(n): return [1]"]
    assert run_unit_tests(sandbox, [(code, pairs) for code in codes]) == [Outcome(3, 3), Outcome(0, 3), Outcome(1, 3)]


def test_code_that_passes_other_tests_in_another_run_passes_none(sandbox: Sandbox) -> None:
    tests = UnitTests("f", ("def check(candidate):\n    for x in range(1000):\n        assert candidate(x)\n",))
    assert run_unit_tests(sandbox, [(BY_AN_ADDRESS, tests)]) == [Outcome(0, 1000, "not deterministic")]


def test_code_continues_a_prompt_or_stands_alone(sandbox: Sandbox) -> None:
    prompt = "from typing import List\ndef twice(x): return 2 * x\ndef f(x: List) -> List:\n    ''' x twice '''\n"
    tests = UnitTests("f", ("def check(candidate):\n    assert candidate(3) == twice(3)\n",), prompt)
    codes = [
        "    return twice(x)\n",
        "    return twice(x)\nprint('and so on",
        "def f(x: List): return twice(x)",
        "import os\nf = lambda x: x + x",
    ]
    assert run_unit_tests(sandbox, [(code, tests) for code in codes]) == [Outcome(1, 1)] * len(codes)
    assert run_unit_tests(sandbox, [("return 6", tests)]) == [Outcome(0, 1)]


TREE = """
class Node:
    def __init__(self, value): self.value, self.left, self.right = value, None, None
    def grow(self, by): self.value += by
def total(node): return node.value + total(node.left) + total(node.right) if node else 0
"""
ROOT = "root = Node(1)\nroot.left = Node(2)\nroot.left.right = Node(3)\nroot.grow(by=4)"


def test_setup_may_build_objects_of_the_code_and_read_them(sandbox: Sandbox) -> None:
    tests = UnitTests("total", ("assert total(root) == 10", "assert root.left.value == 2"), setup=ROOT)
    broken = TREE.replace("self.value += by", "pass")
    assert run_unit_tests(sandbox, [(TREE, tests), (broken, tests)]) == [Outcome(2, 2), Outcome(1, 2)]


def test_the_imports_of_the_setup_are_there_for_the_code(sandbox: Sandbox) -> None:
    """MBPP's `test_imports`, say."""
    code = "@lru_cache(None)\ndef f(x: List[int]) -> int: return math.floor(x)"
    setup = "import math\nfrom functools import lru_cache\nfrom typing import List\nclose = math.isclose"
    with_imports = UnitTests("f", ("assert close(f(2.5), 2)",), setup=setup)
    without = UnitTests("f", ("assert f(2.5) == 2",))
    assert run_unit_tests(sandbox, [(code, with_imports), (code, without)]) == [Outcome(1, 1), Outcome(0, 1)]


def test_nothing_else_of_the_setup_reaches_the_code(sandbox: Sandbox) -> None:
    tests = UnitTests("f", ("assert f(2) == expected(2)",), setup="def expected(x): return 2 * x")
    ways = ("expected", "globals()['expected']", "__import__('tests').expected")
    outcomes = run_unit_tests(sandbox, [(f"def f(x): return {way}(x)", tests) for way in ways])
    assert outcomes == [Outcome(0, 1)] * len(ways)


def test_code_that_makes_the_setup_fail_defines_nothing_in_its_place(sandbox: Sandbox) -> None:
    tests = UnitTests("f", ("assert same(f(2), 4)",), setup="x = f(1)\ndef same(one, other): return one == other")
    code = "def f(x): return 1 / 0\ndef same(one, other): return True\n"
    assert run_unit_tests(sandbox, [(code, tests)]) == [Outcome(0, 1)]


def test_a_name_of_a_builtin_function_is_no_solution(sandbox: Sandbox) -> None:
    tests = UnitTests("sorted", ("assert sorted([2, 1]) == [1, 2]",))
    jobs = [("x = 1", tests), ("def sorted(x): return [1, 2]", tests)]
    assert run_unit_tests(sandbox, jobs) == [Outcome(0, 1), Outcome(1, 1)]
