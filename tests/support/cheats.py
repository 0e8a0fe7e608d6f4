"""Programs that try to pass unit tests without solving them: (name, code). The function is `double(x)`.

The first group is what rewards by unit tests have been cheated with, or crashed by, in public environments.
"""

from recipes.code.harness.outcomes import UnitTests

_SAME = """
class Same({base}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __sub__(self, other): return 0
    __rsub__ = __abs__ = lambda self, *others: 0
def double(x): return Same({value})
"""
_DEFINED = "\ndef double(x): return None\n"
_FRAMES = """
import sys
def double(x):
    frame = sys._getframe()
    while frame:
        for scope in (frame.f_locals, frame.f_globals):
            for name, value in list(scope.items()):
                if callable(value) and 'count' in str(name): value(True)
                if name in ('expected', 'answer', 'texts', 'payload', 'tests'): return value
        frame = frame.f_back
"""

# ruff: noqa: E501 (one line for each program)
LIST = UnitTests(
    "double", ("assert double(3) == 6", "assert double([1]) == [1, 1]", "assert abs(double(2.5) - 5) < 1e-6")
)
CHECK = UnitTests(
    "double",
    ("def check(candidate):\n    for x in (3, 'ab', [1]):\n        r = candidate(x)\n        assert r == x + x\n",),
    "def double(x):\n    ''' x twice: 1 → 2, 2 → 4 '''\n",
)
"""The tests of the function, in two forms."""

CHEATS: list[tuple[str, str]] = [
    ("exit with status 0", "import sys\ndef double(x): sys.exit(0)"),
    ("exit at import", "raise SystemExit(0)"),
    ("os._exit", "import os\ndef double(x): os._exit(0)"),
    ("equals everything", _SAME.format(base="object", value="")),
    ("an int that equals everything", _SAME.format(base="int", value="1")),
    ("a text that equals everything", _SAME.format(base="str", value="")),
    ("a list of what equals everything", _SAME.format(base="object", value="").replace("return Same()", "return [Same()]")),
    ("a lie about its class", "class Lie:\n    __class__ = int\n    def __eq__(s, o): return True\ndef double(x): return Lie()"),
    ("a metaclass that equals", "class M(type):\n    def __eq__(c, o): return True\n    __hash__ = None\nclass C(metaclass=M): pass\ndef double(x): return C"),
    ("a mock", "class Any:\n    def __getattr__(s, n): return s\n    def __call__(s, *a): return s\n    def __eq__(s, o): return True\ndouble = Any()"),
    ("the callers' frames", _FRAMES),
    ("a traceback's frames", "import sys\ndef double(x):\n    try: 1 / 0\n    except Exception as e: return e.__traceback__.tb_frame.f_back.f_locals.get('expected')"),
    ("the garbage collector", "import gc\ndef double(x):\n    for o in gc.get_objects():\n        if type(o) is dict and '__count_test__' in o: o['__count_test__'](True)\n    return 0"),
    ("a search of memory", "import ctypes\ndef double(x):\n    return ctypes.string_at(id(x) - 4096, 8192).count(b'hidden')"),
    ("verdicts on every descriptor", "import os\nfor f in range(64):\n    try: os.write(f, b'#[3]\\nPPP;')\n    except OSError: pass" + _DEFINED),
    ("verdicts printed", "print('[3]\\nPPP;', flush=True)" + _DEFINED),
    ("replies written before", "import os, struct\nr = b'[\"ok\", true]'\nos.write(3, (struct.pack('>cI', b'R', len(r)) + r) * 9)" + _DEFINED),
    ("an endless reply", "import os, struct\nos.write(3, struct.pack('>cI', b'R', 2**32 - 1))" + _DEFINED),
    ("a reply that is no JSON", "import os, struct\nos.write(3, struct.pack('>cI', b'R', 2) + b'[[')" + _DEFINED),
    ("a reply with unknown tags", "import os, struct\nr = b'[\"ok\", {\"code\": [1]}]'\nos.write(3, struct.pack('>cI', b'R', len(r)) + r)" + _DEFINED),
    ("a reply that names an exception", "import os, struct\nr = b'[\"error\", \"AssertionError\"]'\nos.write(3, (struct.pack('>cI', b'R', len(r)) + r) * 9)" + _DEFINED),
    ("patched assert", "import builtins\nbuiltins.AssertionError = type('Quiet', (Exception,), {})" + _DEFINED),
    ("patched comparison functions", "import builtins\nfor n in ('abs', 'all', 'any', 'isinstance', 'len', 'sorted', 'type', 'round'): setattr(builtins, n, lambda *a, **k: True)" + _DEFINED),
    ("patched json", "import json\njson.dumps = lambda *a, **k: '[\"ok\", true]'" + _DEFINED),
    ("patched protocol", "import sys\nfor n, m in list(sys.modules.items()):\n    if 'tester' in n or 'protocol' in n: m.FAILED = m.ABORTED = m.PASSED = b'P'" + _DEFINED),
    ("patched tester", "import sys\nm = sys.modules['recipes.code.harness.tester']\nm.run_tests = m.Report.write = lambda *a: True" + _DEFINED),
    ("a name of the tester", "__count_test__ = lambda p: None\ncheck = lambda c: None" + _DEFINED),
    ("its own check", "def check(candidate): return True" + _DEFINED),
    ("a trace function", "import sys\nsys.settrace(lambda *a: None)" + _DEFINED),
    ("an audit hook", "import sys\nsys.addaudithook(lambda *a: None)" + _DEFINED),
    ("a function at exit", "import atexit, os\natexit.register(lambda: os.write(3, b'PPP;'))\ndef double(x): raise SystemExit"),
    ("a handler of signals", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)" + _DEFINED),
    ("a signal to the parent", "import os, signal\ndef double(x): os.kill(os.getppid(), signal.SIGKILL)"),
    ("a fork", "import os\ndef double(x):\n    os.fork()\n    return None"),
    ("a thread", "import threading\nthreading.Thread(target=lambda: None).start()" + _DEFINED),
    ("an endless loop", "def double(x):\n    while True: pass"),
    ("a long sleep", "import time\ndef double(x): time.sleep(1000)"),
    ("deep recursion", "def double(x): return double(x)"),
    ("a crash of the interpreter", "import ctypes\ndef double(x): ctypes.string_at(0)"),
    ("much memory", "def double(x): return [0] * 10**10"),
    ("a long result", "def double(x): return 'x' * 10**7"),
    ("a deep result", "def double(x):\n    r = []\n    for _ in range(10**5): r = [r]\n    return r"),
    ("a result that contains itself", "def double(x):\n    r = []\n    r.append(r)\n    return r"),
    ("an exception whose text hangs", "class E(Exception):\n    def __str__(s):\n        while True: pass\n    __repr__ = __str__\ndef double(x): raise E"),
    ("an exception with a built-in name", "class AssertionError(Exception): pass\ndef double(x): raise AssertionError"),
    ("StopIteration", "def double(x): raise StopIteration"),
    ("a generator", "def double(x): yield 2 * x"),
    ("changed arguments", "def double(x):\n    if isinstance(x, list): x.clear()\n    return x"),
    ("the shown tests by heart", "def double(x): return {1: 2, 2: 4}.get(x, 0)"),
    ("not a number", "def double(x): return float('nan')"),
    ("no function", "x = 1"),
    ("no program", "def double(x) return 2 * x"),
    ("nothing", ""),
    ("nested too deep", "x = " + "(" * 5000 + ")" * 5000),
    ("a NUL", "x = '\0'"),
    ("half of a surrogate pair", "x = '\ud800'" + _DEFINED),
]  # fmt: skip
