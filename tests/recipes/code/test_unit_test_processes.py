"""Processes of unit tests serve many problems: no outcome depends on what ran before, and nothing is handed on."""

import random
from collections.abc import Iterator

import psutil
import pytest

from recipes.code.harness.outcomes import Outcome, UnitTests, run_unit_tests
from recipes.code.harness.processes import TestProcesses
from tasks.programs.code_blocks import parsed
from tasks.programs.sandbox.determinism import Findings
from tasks.programs.sandbox.sandbox import Sandbox
from tests.support.cheats import CHEATS, CHECK, LIST

DOUBLE = "def double(x): return x + x\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(1.0, 256, allow_weak=False, workers=1, service=TestProcesses) as made:
        yield made


def _kept(code: str) -> bool:
    tree = parsed(code)
    assert tree is not None
    return Findings(tree).may_keep_state


@pytest.mark.parametrize("code", [
    "import math\nmath.pi = 3", "import math\ndel math.pi", "import math as m\nm.tau += 1",
    "import random\nrandom.seed(1)",
    "from collections import Counter\nCounter.most_common = len", "import decimal\ndecimal.getcontext()",
    "import builtins\nbuiltins.len = 3", "__builtins__['len'] = 3", "import sys", "class A: pass",
    "setattr(len, 'x', 1)",
    "import numbers\nnumbers.Number.register(str)", "from typing import overload", "from typing import final",
    "import functools\nfunctools.total_ordering(dict)", "import typing\ntyping.get_overloads", "import operator",
    "from collections import *", "from . import x", "import collections.abc", "'{0.__class__}'.format(3)",
    "import re\nre.purge.__globals__", "import copy", "with x: pass", "(lambda: 0).__code__ = None",
    "for math.pi in (1, 2): pass", "[0 for math.e in 'ab']", "import typing\ntyping.runtime_checkable(int)",
    "from functools import singledispatch", "import string\nstring.Formatter",
])  # fmt: skip
def test_code_that_might_leave_state_has_a_process_of_its_own(code: str) -> None:
    assert _kept(code)


@pytest.mark.parametrize("code", [
    DOUBLE, "def f(n):\n    memo = {}\n    memo[n] = n\n    global last\n    last = memo\n    return memo.get(n)",
    "import math\nfrom typing import List\ndef f(x: List[int]): return math.floor(sum(x))",
    "from collections import Counter\ndef f(t): return Counter(t).most_common(1)",
    "import re\nimport itertools\ndef f(t): return [m.group(0) for m in re.finditer('a+', t)]",
    "from functools import lru_cache\n@lru_cache(None)\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)",
    "def f(x):\n    try: x.append(1)\n    except ValueError as e: return 1\n    finally: del x\n    return [*x]",
])  # fmt: skip
def test_code_that_only_computes_may_share_one(code: str) -> None:
    assert not _kept(code)


def test_outcomes_do_not_depend_on_what_ran_before(sandbox: Sandbox) -> None:
    rng = random.Random(0)
    quick = [code for name, code in CHEATS if "loop" not in name and "sleep" not in name and "hangs" not in name]
    jobs = [
        (code, tests) for code in [*rng.sample(quick, 12), DOUBLE, "def double(x): return x"] for tests in (LIST, CHECK)
    ]
    expected = {job: outcome for job in jobs for outcome in run_unit_tests(sandbox, [job])}
    for _ in range(2):
        mixed = rng.sample([*jobs, *((DOUBLE, CHECK),) * 12], len(jobs) + 12)
        assert run_unit_tests(sandbox, mixed) == [expected[job] for job in mixed]
    assert expected[DOUBLE, CHECK] == Outcome(3, 3)


def test_state_of_tests_reaches_no_later_ones(sandbox: Sandbox) -> None:
    for setting in (
        "import math\nmath.isclose = lambda *each: True",
        "import builtins\nbuiltins.secret = 4\nimport math\nmath.secret = 4",
        "import numpy\nnumpy.allclose = lambda *each: True",
        "import random\nrandom.seed(5)",
    ):
        first = UnitTests("f", (f"{setting}\nassert f(2) == 4",))
        later = (
            "import math\nassert math.isclose(f(2), 5)",
            "assert secret == 4",
            "import numpy\nassert numpy.allclose(f(2), 5)",
            "import random\nassert random.random() == 0.8444218515250481",  # as in every process, by seed 0
        )
        code = "def f(x): return 2 * x"
        jobs = [(code, first), (code, UnitTests("f", later))]
        assert run_unit_tests(sandbox, jobs) == [Outcome(1, 1), Outcome(1, 4)]


def test_code_that_searches_memory_finds_no_code_and_no_argument_of_others(sandbox: Sandbox) -> None:
    marker = 7310_5542
    spy = "\n".join(
        [
            "import gc, sys",
            "def double(x):",
            "    seen, todo, word = set(), [*gc.get_objects(), sys.modules], str(2 * x)[::-1]",
            "    while todo:",
            "        each = todo.pop()",
            "        if id(each) in seen: continue",
            "        seen.add(id(each))",
            "        if type(each) in (str, bytes, int) and word in str(each)[::-1] and each != x: return 2 * x",
            "        todo += gc.get_referents(each)",
            "    return None",
        ]
    )
    solved = (
        f"def double(x): return {{{marker}: {2 * marker}}}[x]",
        UnitTests("double", (f"assert double({marker})",)),
    )
    searched = (spy, UnitTests("double", (f"assert double({marker}) == {marker} * 2",)))
    outcomes = run_unit_tests(sandbox, [solved, searched, solved, searched])
    assert outcomes == [Outcome(1, 1), Outcome(0, 1)] * 2


def test_more_programs_of_their_own_than_one_process_of_tests_serves(sandbox: Sandbox) -> None:
    codes = [f"import sys\ndef double(x): return x + x if {i} % 3 < 2 else None" for i in range(60)]
    outcomes = run_unit_tests(sandbox, [(code, LIST) for code in codes])
    assert outcomes == [Outcome(0, 3) if i % 3 == 2 else Outcome(3, 3) for i in range(60)]


def test_tests_that_never_end_or_end_the_process_fail_alone() -> None:
    endless = UnitTests("double", ("assert double(1) == 2", "while True: pass", "assert double(2) == 4"))
    leaving = UnitTests("double", ("assert double(1) == 2", "import os\nos._exit(0)", "assert double(2) == 4"))
    jobs = [(DOUBLE, tests) for tests in (LIST, endless, LIST, leaving, LIST)]
    late, ended = Outcome(1, 3, "out of time"), Outcome(1, 3)
    with Sandbox(0.3, 256, allow_weak=False, workers=1, service=TestProcesses) as sandbox:
        assert run_unit_tests(sandbox, jobs) == [Outcome(3, 3), late, Outcome(3, 3), ended, Outcome(3, 3)]


def test_there_may_be_more_tests_than_a_pipe_holds(sandbox: Sandbox) -> None:
    many = UnitTests("double", ("x = double(1)\nfor n in range(100_000):\n    assert x == 2 or n\n",))
    assert run_unit_tests(sandbox, [(DOUBLE, many), ("def double(x): return 3", many)]) == [
        Outcome(100_000, 100_000),
        Outcome(99_999, 100_000),
    ]


def test_a_process_of_tests_that_is_killed_from_outside_costs_no_test(sandbox: Sandbox) -> None:
    run_unit_tests(sandbox, [(DOUBLE, LIST)])
    for child in psutil.Process(sandbox.pids[0]).children():
        child.kill()
    assert run_unit_tests(sandbox, [(DOUBLE, LIST), (DOUBLE, CHECK)]) == [Outcome(3, 3), Outcome(3, 3)]
