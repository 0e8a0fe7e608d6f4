"""The sandbox as a function: order, repetition, workers, restarts, no process left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from time import monotonic

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.params.sections import SandboxParams
from tasks.programs.contract import HEADER
from tasks.programs.sandbox.modules import MODULES
from tasks.programs.sandbox.plain_programs import is_plain
from tasks.programs.sandbox.sandbox import Program, Sandbox, make_sandbox, probe_tier
from tasks.records.programs import Result
from tests.support.processes import in_sessions

QUESTION = "Ann has 3 pens, 1,200 nails and half a pie; 20% are 1/4 of 7."
FORKED = "\nforked = None\n"
"""Makes a plain program one that is not plain, with the same results."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2.0, 256, allow_weak=False, workers=2) as running:
        yield running


def run_one(sandbox: Sandbox, code: str, question: str = QUESTION) -> Result:
    return sandbox.run([Program(code, (question,))])[0][0]


def plain(body: str) -> str:
    return f"{HEADER}    {body}\n"


def ok(value: float | str) -> Result:
    return Result(status="ok", value=value)


def error(text: str) -> Result:
    return Result(status="error", error=text)


def test_this_machine_has_the_full_tier_and_says_so(sandbox: Sandbox) -> None:
    tier, reason = probe_tier()
    assert (tier, sandbox.tier) == ("full", "full")
    assert "landlock and seccomp" in reason


ENDINGS = {
    plain("return n[0] * n[1]"): ok(3600), plain("return n[2]"): ok(0.5),
    plain("return n[99]"): error("IndexError: list index out of range"),
    plain("return x"): error("NameError: name 'x' is not defined"),
    plain("return n[0] / (n[0] - 3)"): error("ZeroDivisionError: division by zero"),
    plain("return n"): error("returned list"), plain("a = 1"): error("returned NoneType"),
    plain("return problem"): ok(QUESTION),
    plain("return problem * 100"): error("returned a text of over 4000 characters"),
    plain("return 1e12 * 1e12\n" + "    #"): ok(1e24), plain("return True"): error("returned bool"),
    plain("return None"): error("returned NoneType"), plain("return float('nan')"): error("returned nan"),
    plain("return -float('inf')"): error("returned -inf"), plain("return {1: 2}"): error("returned dict"),
    plain("return 10**99"): ok(10**99), plain("return -10**100"): error("returned a number of over 100 digits"),
    plain("return 10**5000"): error("returned a number of over 100 digits"), plain("return 'half'"): ok("half"),
    plain("return chr(0xD800)"): error("returned a text that is not Unicode"),
    plain("return type('Money', (float,), {})(3)"): error("returned Money"),
    plain("raise ValueError('a\\nb', object)"): error("ValueError: ('a\\nb', <class 'object'>)"),
    plain("raise ValueError(object())"): error("ValueError: <object object>"),
    plain("raise ValueError('x' * 9999)"): error(f"ValueError: {'x' * 188}"),
    plain("open('/usr/share/secret')"): error("PermissionError: [Errno 1] Operation not permitted: '<path>'"),
    "def solve(": error("SyntaxError: '(' was never closed (<workflow>, line 1)"),
    "x = 1": error("NameError: the program defines no function solve(problem)"),
    "raise SystemExit(0)": error("SystemExit: 0"),
    "import os\ndef solve(problem): os._exit(0)": Result(status="killed", error="ended without a result"),
    "def solve(problem): return bytes(2 * 10**9)": Result(status="memory", error="MemoryError"),
    "def solve(problem): import time; time.sleep(99)": Result(status="timeout", error="out of time"),
}  # fmt: skip


def test_endings(sandbox: Sandbox) -> None:
    found = sandbox.run([Program(code, (QUESTION,)) for code in ENDINGS])
    assert {code: results[0] for code, results in zip(ENDINGS, found, strict=True)} == ENDINGS


def test_a_question_may_contain_any_text(sandbox: Sandbox) -> None:
    questions = ("", "\0", "\ud800 5", "é" * 5000, '"]', "7 " * 9000)
    for code in (plain("return n + n"), plain("return n + n") + FORKED):
        statuses = [result.error for result in sandbox.run([Program(code, questions)])[0]]
        assert statuses == ["returned list"] * len(questions)


def test_order_is_kept_and_nothing_runs_when_nothing_is_asked(sandbox: Sandbox) -> None:
    assert sandbox.run([]) == []
    assert sandbox.run([Program(plain("return 1"), ())]) == [[]]
    programs = [
        Program(plain(f"return n[0] + {i}") + FORKED * (i % 3 == 0), tuple(f"{i * j}" for j in range(i % 4)))
        for i in range(60)
    ]
    expected = [[ok(i * j + i) for j in range(i % 4)] for i in range(60)]
    assert sandbox.run(programs) == expected


def test_equal_pairs_run_once(sandbox: Sandbox) -> None:
    slow = "import time\ndef solve(problem):\n    time.sleep(0.2)\n    return problem"
    before = monotonic()
    results = sandbox.run([Program(slow, ("a", "a")), *[Program(slow, ("a",))] * 20, Program(slow, ("b",))])
    assert monotonic() - before < 20 * 0.2 / 2  # of two workers
    assert results == [[ok("a")] * 2, *[[ok("a")]] * 20, [ok("b")]]


def statements() -> st.SearchStrategy[str]:
    number = st.integers(0, 99).map(str) | st.sampled_from(["0", "0.5", "1e12"])
    calls = ["calculate('3*4')", "numbers(problem)", "majority([n[0], 3, 3])", "calculate(a)", "majority(n)"]
    names = ["n[0]", "n[1]", "n[-1]", "n[2]", "n[9]", "a", "b", "n", "problem", "undefined"]
    leaf = st.sampled_from(names) | number | st.sampled_from(calls)
    operator = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    larger = lambda e: st.tuples(e, operator, e).map(" ".join) | e.map(lambda x: f"-({x})")  # noqa: E731
    expression = st.recursive(leaf, larger, max_leaves=4)
    return st.tuples(st.sampled_from(["a = ", "b = ", "n = ", "return "]), expression).map("".join)


@given(st.lists(st.lists(statements(), min_size=1, max_size=5), min_size=6, max_size=12))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_fast_tier_gives_what_the_fork_tier_gives(sandbox: Sandbox, bodies: list[list[str]]) -> None:
    codes = [plain("\n    ".join([*body, "return a"])) for body in bodies]
    assert all(map(is_plain, codes))
    assert not any(is_plain(code + FORKED) for code in codes)
    questions = (QUESTION, "Bob has 7 cats.")
    fast = sandbox.run([Program(code, questions) for code in codes])
    assert fast == sandbox.run([Program(code + FORKED, questions) for code in codes])


def test_a_plain_bomb_spoils_no_other_program() -> None:
    squares = plain("a = n[0]\n" + "    a = a * a\n" * 50 + "    return a")
    big_text = plain("return problem * 1000000000")
    good = [Program(plain(f"return n[0] + {i}"), (QUESTION,)) for i in range(70)]
    assert is_plain(squares)
    with Sandbox(0.3, 256, allow_weak=False, workers=1) as sandbox:
        found = sandbox.run([*good[:35], Program(squares, (QUESTION,)), Program(big_text, (QUESTION,)), *good[35:]])
    assert found[35][0].status in ("timeout", "memory")
    assert found[36][0] == Result(status="memory", error="MemoryError")
    assert [r[0].value for r in found[:35] + found[37:]] == [3 + i for i in range(70)]


def test_a_busy_machine_does_not_change_the_results() -> None:
    work = "def solve(problem):\n    for _ in range(1_000_000): pass\n    return 5"
    crowd = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        with Sandbox(0.1, 256, allow_weak=False, workers=1) as sandbox:
            found = [run_one(sandbox, f"{work} + {number}").value for number in range(4)]
    finally:
        for process in crowd:
            process.kill()
            process.wait()
    assert found == [5, 6, 7, 8]


def test_a_zygote_that_dies_between_runs_is_replaced() -> None:
    with Sandbox(2.0, 256, allow_weak=False, workers=2) as sandbox:
        programs = [Program(plain(f"return {i}") + FORKED * (i % 2), (QUESTION,)) for i in range(40)]
        expected = sandbox.run(programs)
        before = sandbox.pids
        for zygote in before:
            os.kill(zygote, signal.SIGKILL)
        assert sandbox.run(programs) == expected
        assert set(sandbox.pids).isdisjoint(before)


def test_a_zygote_that_dies_during_a_program_is_replaced_and_the_program_repeated() -> None:
    code = "import os, sys, time; pid = int(input()); time.sleep(0.2); os.kill(pid, 9)"
    killer = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True)
    with Sandbox(1.0, 256, allow_weak=False, workers=1) as sandbox:
        (before,) = sandbox.pids
        assert killer.stdin
        killer.stdin.write(f"{before}\n")
        killer.stdin.close()
        slow = "import time\ndef solve(problem):\n    time.sleep(0.5)\n    return 5"
        assert run_one(sandbox, slow) == ok(5)
        assert sandbox.pids != [before]
        assert in_sessions([before]) == []
    assert killer.wait() == 0


def test_a_zygote_that_keeps_dying_costs_only_the_program() -> None:
    """Without the kernel's layers a program can kill the zygote each time; the next program is run all the same."""
    kill = "import os, signal\ndef solve(problem): os.kill(os.getppid(), signal.SIGKILL)"
    with Sandbox(1.0, 256, allow_weak=True, workers=1, layers=()) as sandbox:
        assert sandbox.tier == "limits-only"
        results = sandbox.run([Program(kill, ("a", "b")), Program(plain("return 3") + FORKED, ("a",))])
        died = Result(status="failed", error="the sandbox process died")
        assert results == [[died, died], [ok(3)]]


def test_no_process_outlives_a_host_that_is_killed() -> None:
    script = (
        "import sys, threading\n"
        "from tasks.programs.sandbox.sandbox import Program, Sandbox\n"
        "sandbox = Sandbox(30.0, 256, False, workers=1)\n"
        "sandbox.run([Program('def solve(problem):\\n    return 1\\n', ('q',))])\n"
        "print(sandbox.pids[0], flush=True)\n"
        "sandbox.run([Program('def solve(problem):\\n    while True: pass', ('q',))])\n"
    )
    host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert host.stdout
    zygote = int(host.stdout.readline())
    while len(in_sessions([zygote])) < 2:  # the zygote and the endless program
        assert host.poll() is None
    host.kill()
    host.wait()
    while in_sessions([zygote]):  # ends, or the test hangs
        pass


def test_what_a_program_may_import_works_without_opening_a_file(sandbox: Sandbox) -> None:
    uses = {
        "abc": "len(abc.ABC.__mro__)",
        "array": "array.array('d', [1, 2])[1]",
        "ast": "ast.literal_eval('[1, 2]')[1]",
        "base64": "len(base64.b64encode(b'ab').decode() + base64.b32hexdecode('C5H0====').decode())",
        "binascii": "binascii.crc32(b'ab') + len(binascii.hexlify(b'ab'))",
        "bisect": "bisect.bisect([1, 3], 2)",
        "calendar": "calendar.monthrange(2024, 2)[1] + len(calendar.month_name[2])",
        "cmath": "cmath.sqrt(-1).imag",
        "collections": "collections.Counter('aba').most_common(1)[0][1] + len(collections.namedtuple('P', 'x')(1))",
        "collections.abc": "isinstance([], collections.abc.Sequence) + 1",
        "colorsys": "colorsys.rgb_to_hsv(1, 0, 0)[1]",
        "contextlib": "contextlib.nullcontext(3).enter_result",
        "copy": "copy.deepcopy([1, [2]])[1][0]",
        "csv": "len(next(csv.DictReader(['a;b', '1;2,3'], delimiter=';'))['b'])",
        "dataclasses": "dataclasses.make_dataclass('P', ['x'])(4).x",
        "datetime": "datetime.datetime.strptime('3 March 2024', '%d %B %Y').timetuple().tm_yday"
        " + (datetime.date(2024, 3, 1) - datetime.date(2024, 2, 1)).days",
        "decimal": "float(decimal.Decimal('1.10').quantize(decimal.Decimal('0.1'))) + int(decimal.getcontext().prec)",
        "difflib": "difflib.SequenceMatcher(None, 'abc', 'abd').ratio()",
        "enum": "enum.Enum('E', 'A B').B.value",
        "fractions": "float(fractions.Fraction('3/4') + fractions.Fraction(0.5).limit_denominator(10))",
        "functools": "functools.reduce(lambda a, b: a + b, [1, 2]) + functools.lru_cache(len)('ab')",
        "graphlib": "len(list(graphlib.TopologicalSorter({2: [1]}).static_order()))",
        "heapq": "heapq.nlargest(1, [1, 3])[0] + list(heapq.merge([1], [2]))[0]",
        "hashlib": "len(hashlib.md5(b'a').hexdigest()) + len(hashlib.sha256(b'a').digest())",
        "hmac": "len(hmac.new(b'k', b'm', 'sha256').hexdigest() + hmac.digest(b'k', b'm', 'md5').hex())",
        "html": "len(html.escape('<a>') + html.unescape('&eacute;'))",
        "html.entities": "html.entities.name2codepoint['eacute']",
        "html.parser": "html.parser.HTMLParser().feed('<a b=1>c</a>') or 1",
        "ipaddress": "ipaddress.ip_network('10.0.0.0/30').num_addresses",
        "itertools": "len(list(itertools.permutations('abc')))",
        "json": "json.loads(json.dumps({'a': [1.5, None]}, indent=1))['a'][0]",
        "keyword": "keyword.iskeyword('for') + 0",
        "math": "math.comb(5, 2) + math.isqrt(10)",
        "numbers": "isinstance(1, numbers.Number) + 0",
        "operator": "operator.itemgetter(1)([1, 2])",
        "pprint": "len(pprint.pformat({'a': [1, 2]}))",
        "random": "random.Random(1).choice([4]) + random.randint(2, 2) + len(random.sample(range(9), 3))",
        "re": "len(re.findall(r'(?i)[a-z]+', 'Ab 1 cd')) + len(re.sub('a', lambda m: 'b', 'aa'))",
        "statistics": "statistics.median([1, 2, 9]) + statistics.mode('aab').count('a') + statistics.pstdev([1, 1])"
        " + statistics.NormalDist(0, 1).cdf(0) + statistics.fmean([1, 2])",
        "string": "len(string.Template('$a').substitute(a='xy')) + len(string.Formatter().format('{:>3}', 1))",
        "struct": "struct.unpack('<I', struct.pack('>I', 1))[0]",
        "textwrap": "len(textwrap.wrap('a b c', 1))",
        "time": "int(time.time() > 0)",
        "types": "types.SimpleNamespace(x=3).x",
        "typing": "typing.NamedTuple('P', [('x', int)])(3).x",
        "unicodedata": "unicodedata.numeric('½') + len('\\N{DIGIT ONE}')",
        "urllib.parse": "len(urllib.parse.urlencode({'a': 'é'}) + urllib.parse.urlsplit('http://a.b:1/c?d').netloc)",
        "zlib": "len(zlib.decompress(zlib.compress(b'aaaa')))",
    }
    assert sorted(uses) == sorted(MODULES)
    programs = [
        Program(f"import {module}\ndef solve(problem): return ({use}) * 1", (QUESTION,)) for module, use in uses.items()
    ]
    failed = {m: r[0] for m, r in zip(uses, sandbox.run(programs), strict=True) if r[0].status != "ok"}
    assert failed == {}


def test_any_other_import_fails_at_once(sandbox: Sandbox) -> None:
    for module in ("subprocess", "torch", "socket", "nothing_of_that_name"):
        result = run_one(sandbox, f"import {module}\ndef solve(problem): return 1")
        assert result.error == f"ModuleNotFoundError: No module named '{module}'"


def test_weak_machines_are_refused_unless_the_user_says_so() -> None:
    with pytest.raises(GraftError, match=r"sandbox\.allow_weak=true"):
        Sandbox(1.0, 256, allow_weak=False, layers=())
    for layers, tier in ((("seccomp",), "partial"), (("landlock",), "partial")):
        with Sandbox(1.0, 256, allow_weak=False, workers=1, layers=layers) as sandbox:
            assert sandbox.tier == tier
            assert run_one(sandbox, plain("return n[0]")).value == 3


def test_the_params_reach_the_sandbox() -> None:
    eat = "def solve(problem): return len(bytearray({} << 20))"
    with make_sandbox(SandboxParams(seconds=0.2, memory_mb=64, allow_weak=False)) as sandbox:
        assert run_one(sandbox, "import time\ndef solve(problem): time.sleep(0.4)").status == "timeout"
        assert run_one(sandbox, eat.format(64)).status == "memory"
        assert run_one(sandbox, plain("return n[0]")).value == 3
    with make_sandbox(SandboxParams(seconds=2.0, memory_mb=128, allow_weak=False)) as sandbox:
        assert run_one(sandbox, "import time\ndef solve(problem): time.sleep(0.4)").error == "returned NoneType"
        assert run_one(sandbox, eat.format(64)).value == 64 << 20


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("import time\n    time.sleep(0.01)\n    return time.time()", 1735689600.001),
        ("import time\n    time.sleep(0)\n    return time.monotonic_ns()", 1_000_000),
        ("import time\n    try: time.sleep(-1)\n    except ValueError as error: return str(error)",
         "sleep length must be non-negative"),
        ("import _thread\n    lock = _thread.allocate_lock()\n    return lock.acquire() + lock.acquire(True, 9)", 1),
        ("import random\n    class R(random.Random): pass\n"
         "    return int(random.Random().random() == R().random() == random.Random(0).random() != R(1).random())", 1),
        ("return '/home/ann/notes'", "/home/ann/notes"),
        ("return '/proc/self/cwd/lib'", "/proc/self/cwd/lib"),
        ("import time\n    return time.strftime('%Y年')", "2025年"),
    ],
)  # fmt: skip
def test_pauses_locks_generators_and_paths_of_a_problem(sandbox: Sandbox, body: str, value: float | str) -> None:
    """Neither the refusal of clocks nor the names of folders reach a program that asks for neither."""
    assert run_one(sandbox, f"def solve(problem):\n    {body}") == Result(status="ok", value=value)
