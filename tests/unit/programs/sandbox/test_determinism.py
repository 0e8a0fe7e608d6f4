"""Which programs need no second run, because they are the same in every run; the attacks of `chance` are the others."""

import ast
import builtins
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.programs.contract import HEADER
from tasks.programs.operators.builtin import OPERATORS
from tasks.programs.sandbox.determinism import Findings, may_differ
from tasks.programs.sandbox.sandbox import NOT_DETERMINISTIC, SANDBOX_DIED, Program, Sandbox, compare_runs
from tasks.records.programs import Result

STEADY = {
    "arithmetic": HEADER + "    return n[0] * 1.5 + n[1] % 7 ** 2\n",
    "operators": HEADER + '    return majority([calculate("2 * 3 % 4"), n[0], compare(3, "1/2")])\n',
    "loops": HEADER
    + "    total = 0\n    for i, x in enumerate(n):\n        while total < x:\n            total += i + 1\n"
    "    return total\n",
    "comprehensions": HEADER
    + "    return sum(x * y for x, y in zip(n, n[1:])) + max([x for x in n if x > 2], default=0)\n",
    "text methods": 'def solve(problem):\n    return len(",".join(problem.lower().split()).strip("?"))\n',
    "f-strings": HEADER + "    return f'{n[0]:.2f} and {int(n[1])}'\n",
    "type hints": "def solve(problem: str) -> float:\n    return float(len(problem))\n",
    "modules": "import math\nimport re\nfrom collections import Counter\nfrom fractions import Fraction\n"
    "def solve(problem):\n    found = re.findall(r'[0-9]+', problem)\n"
    "    return math.floor(Fraction(int(found[0]), 3)) + Counter(found).most_common(1)[0][1]\n",
    "functions": "def half(x):\n    return x / 2\ndef solve(problem):\n    return str(half(sum(map(half, [3]))))\n",
    "sorted by a function": "def solve(problem):\n    return str(sorted(numbers(problem), key=lambda x: -x)[0])\n",
    "sets": "def solve(problem):\n    return len(set(problem)) if 3 in {3, 4} else 0\n",
    "exceptions": "def solve(problem):\n    try: return 1 // 0\n    except ZeroDivisionError: return 0\n",
    "dictionaries": "def solve(problem):\n    prices = {'pen': 3}\n    for name, price in prices.items():\n"
    "        problem = problem.replace(name, str(price))\n    return prices.get('pen', 0)\n",
    "a module's name": "mine = None\ndef solve(problem):\n    return 3\n",
}


@pytest.mark.parametrize("name", STEADY)
def test_a_deterministic_program_is_not_run_again(name: str) -> None:
    assert not may_differ(STEADY[name])


@pytest.mark.parametrize("body", [
    "import time; return 1", "from time import time as now; return 1", "import math as m; return m.__loader__",
    "import collections; return collections.abc.sys", "from statistics import random; return 1",
    "from math import *; return 1", "from . import x; return 1", "return len({solve: 1}.keys() & {numbers: 1}.keys())",
    "return list({None, solve})[0] is None", "return str(set(problem))", "return sorted({1.0, 2.0, float('nan')})[0]",
    "return max({solve, numbers}, key=lambda f: 0) is solve", "return str(lambda: 0)", "return str(x for x in problem)",
    "return '{0}'.format(solve)", "import functools; return str(functools.partial(solve))",
    "import operator; return operator.attrgetter('x')(problem)", "import itertools; return str(itertools.chain([1]))",
    "list = lambda x: x\n    return str(list(map(len, problem)))",
    "sorted = list\n    return sorted({None, solve})[0] is None", "return problem % solve", "id = 3\n    return id",
    "class A: pass\n    return str(A())", "match problem:\n        case str(__len__=n): return 1",
    "import statistics; return statistics.kde_random([1, 2], 1)()",  # since Python 3.13
    "import typing; return typing.evaluate_forward_ref(typing.get_args(typing.Optional['id(0)'])[0])",  # since 3.14
])  # fmt: skip
def test_in_doubt_a_program_is_run_again(body: str) -> None:
    assert may_differ("def solve(problem):\n    " + body)


@pytest.mark.parametrize("body", ["type A = int\n    return str(A)", "return str(t'{problem}')"])
def test_syntax_of_a_later_python_is_in_doubt_where_it_runs(body: str) -> None:
    code = "def solve(problem):\n    " + body
    try:
        compile(code, "", "exec")
    except SyntaxError:
        assert not may_differ(code)
    else:
        assert may_differ(code)


def test_a_kind_of_node_that_is_not_known_is_in_doubt() -> None:
    class Later(ast.expr):
        """An expression of a Python to come."""

    tree = ast.parse(HEADER + "    return n[0]\n")
    assert not Findings(tree).may_differ
    tree.body.append(ast.Expr(Later()))
    assert Findings(tree).may_differ


def test_every_builtin_is_classified() -> None:
    risky = {"id", "hash", "object", "open", "eval", "exec", "vars", "dir", "globals", "getattr", "type", "format"}
    assert {name for name in dir(builtins) if may_differ(f"def solve(problem): return {name}")} >= risky
    for name in ("abs", "int", "round", "len", "sum", *OPERATORS):
        assert not may_differ(f"def solve(problem): return {name}(2)")


LEAVES = ["1", "2.5", "'a%sb'", "problem", "solve", "numbers", "None", "math.pi", "n", "str", "set", "id", "len"]
NAMES = st.sampled_from(["str", "set", "sorted", "len", "map", "solve", "repr", "list", "hash", "numbers", "min"])
ATTRIBUTES = st.sampled_from(["real", "upper()", "keys()", "__doc__", "sys"])


def larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = st.sampled_from(["({} % {})", "({} + {})", "{{{}, {}}}", "[x for x in ({}) if {}]"])
    return (
        st.tuples(forms, smaller, smaller).map(lambda p: p[0].format(*p[1:]))
        | st.tuples(NAMES, smaller).map(lambda p: f"{p[0]}({p[1]})")
        | st.tuples(NAMES, smaller, smaller).map(lambda p: f"{p[0]}({p[1]}, {p[2]})")
        | st.tuples(smaller, ATTRIBUTES).map(lambda p: f"({p[0]}).{p[1]}")
        | smaller.map(lambda e: f"f'{{({e})}}'" if "'" not in e else f"[{e}]")
    )


EXPRESSIONS = st.recursive(st.sampled_from([*LEAVES, "lambda: 0"]), larger, max_leaves=6)


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[tuple[Sandbox, Sandbox]]:
    """Two sandboxes with different memory layouts."""
    with Sandbox(2.0, 256, False, workers=1) as one, Sandbox(2.0, 256, False, workers=1) as other:
        yield one, other


@given(st.lists(EXPRESSIONS, min_size=4, max_size=8))
@settings(max_examples=15, deadline=None)
def test_programs_judged_deterministic_are(sandboxes: tuple[Sandbox, Sandbox], found: list[str]) -> None:
    codes = [f"import math\ndef solve(problem):\n    n = [1]\n    return str({expression})\n" for expression in found]
    programs = [Program(code, ("2 and 3",)) for code in codes if not may_differ(code)]
    one, other = (sandbox.run(programs) for sandbox in sandboxes)
    assert one == other
    assert all(len(sandbox.pids) == 1 for sandbox in sandboxes)  # nothing was run again


def test_what_cannot_be_parsed_ends_alike_in_every_run_or_is_in_doubt() -> None:
    assert all(map(may_differ, ("-" * 20_000 + "1", "'\ud800'")))
    assert not any(map(may_differ, ("def solve(", "1 +", "(" * 5000)))


def test_chance_that_is_the_same_in_every_run_is_allowed() -> None:
    code = "import random\nimport time\ndef solve(problem):\n    time.sleep(0.01)\n    return random.random()\n"
    assert may_differ(code)
    with Sandbox(2.0, 256, allow_weak=False, workers=1) as sandbox:
        (result,) = sandbox.run([Program(code, ("",))])[0]
        assert len(sandbox.pids) == 2  # it was run again, in another zygote
    assert result.status == "ok"


OK, OTHER = Result(status="ok", value=3), Result(status="ok", value=4)
DIFFERENT = Result(status="error", error=NOT_DETERMINISTIC)


@pytest.mark.parametrize(("second", "end"), [
    (OK, OK), (OTHER, DIFFERENT), (Result(status="ok", value=3.0), DIFFERENT),
    (Result(status="error", error="ValueError"), DIFFERENT), (Result(status="timeout", error="out of time"), DIFFERENT),
    (Result(status="memory", error="MemoryError"), DIFFERENT), (Result(status="killed", error="SIGSEGV"), DIFFERENT),
    (Result(status="failed", error=SANDBOX_DIED), OK),
])  # fmt: skip
def test_a_second_run_that_says_something_else_makes_an_error(second: Result, end: Result) -> None:
    assert compare_runs(OK, second).model_dump_json() == end.model_dump_json()
