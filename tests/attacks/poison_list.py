"""Programs that try to change what a later program in the same process finds, or to read what an earlier one left.

`VEHICLES` are ways to get code executed that looks like arithmetic, all with the same patch. `PATCHES` are states of a
process that one program could leave to the next, one of each kind, as code of at most 200 characters.
"""

from tasks.programs.contract import HEADER

POISON = 777
"""The number that poisoned programs give."""

INNOCENT = {
    HEADER + "    return n[0] * n[1]\n": 72,
    HEADER + "    return calculate('6 * 7')\n": 42,
    HEADER + "    a = majority([n[0], n[1], n[1]])\n    return a + 0.5\n": 6.5,
    HEADER + "    return compare(n[0], '3/4') + n[1]\n": 7,
    "def solve(problem):\n    return 'as it is'\n".replace("'as it is'", "problem"): "12 boxes of 6 pens",
}
"""Plain programs and their answers to QUESTION."""

QUESTION = "12 boxes of 6 pens"

_RUN = "import tasks.programs.sandbox.run_program as r\n"
_OPERATORS = "import tasks.programs.operators.builtin as b\n"
_ENDING = f"{_RUN}r.value_ending = lambda v: ('ok', {POISON}, None)"
_CODE = repr(_ENDING)


def _body(text: str) -> str:
    return HEADER + "    " + text.replace("\n", "\n    ") + "\n"


VEHICLES = {
    "an operator's name": _body(f"majority = exec\nreturn majority({_CODE})"),
    "an operator's name for getattr": _body("compare = getattr\nreturn compare(numbers, '__globals__')"),
    "an operator's name for type": _body("majority = type\nreturn majority(majority)"),
    "an operator for another": _body("numbers = majority\nreturn numbers([777, 777])"),
    "a model's operator": _body(f"majority = run\nreturn majority({_CODE}, problem)"),
    "itself": _body("majority = solve\nreturn majority(problem)"),
    "a chain of names": _body(f"a = exec\nb = a\nmajority = b\nreturn majority({_CODE})"),
    "two targets": _body(f"a = majority = exec\nreturn majority({_CODE})"),
    "a starred target": _body(f"*a, majority = id, exec\nreturn majority({_CODE})"),
    "an annotated target": _body(f"majority: object = exec\nreturn majority({_CODE})"),
    "a walrus": _body(f"return (majority := exec)({_CODE})"),
    "a loop's target": _body(f"for majority in [exec]:\n    majority({_CODE})\nreturn 1"),
    "a comprehension's target": _body(f"return [majority({_CODE}) for majority in [exec]][0]"),
    "a handler's name": _body(f"try: n[99]\nexcept Exception as majority: majority.__init__.__class__\nexec({_CODE})"),
    "a with's name": "import contextlib\n" + _body(f"with contextlib.nullcontext(exec) as majority: majority({_CODE})"),
    "a pattern's name": _body(f"match exec:\n    case majority: majority({_CODE})\nreturn 1"),
    "an import's name": "from builtins import exec as majority\n" + _body(f"return majority({_CODE})"),
    "an import inside": _body(f"from builtins import exec as majority\nreturn majority({_CODE})"),
    "a parameter": f"def solve(problem, majority=exec):\n    return majority({_CODE})\n",
    "the only parameter": f"def solve(majority=exec):\n    return exec({_CODE})\n",
    "a keyword parameter": f"def solve(problem, *, majority=exec):\n    return majority({_CODE})\n",
    "a lambda's parameter": _body(f"return (lambda majority: majority({_CODE}))(exec)"),
    "a function inside": _body(f"def majority(x): return exec(x)\nreturn majority({_CODE})"),
    "a function of the same name": f"def solve(problem):\n    return 1\ndef solve(problem):\n"
    f"    return exec({_CODE})\n",
    "a class's body": _body(f"class majority: exec({_CODE})\nreturn 1"),
    "a global": _body(f"global majority\nmajority = exec\nreturn majority({_CODE})"),
    "a deleted name": _body(f"global majority\ndel majority\nreturn exec({_CODE})"),
    "a list": _body(f"return [exec][0]({_CODE})"),
    "an argument's list": _body(f"a = majority([exec])\nreturn a({_CODE})"),
    "a dictionary": _body(f"return {{0: exec}}[0]({_CODE})"),
    "a conditional": _body(f"return (exec if n else id)({_CODE})"),
    "a decorator": f"@lambda f: exec({_CODE})\n" + _body("return 1"),
    "an annotation": f"def solve(problem: exec({_CODE})):\n    return 1\n",
    "a return annotation": f"def solve(problem) -> exec({_CODE}):\n    return 1\n",
    "a default": f"def solve(problem=exec({_CODE})):\n    return 1\n",
    "an f-string": _body(f"a = {_CODE}\nreturn f'{{exec(a)}}'"),
    "a statement before": f"exec({_CODE})\n" + _body("return 1"),
    "a condition at the top": f"if 1: exec({_CODE})\n" + _body("return 1"),
    "a semicolon": f"def solve(problem): a = exec; return a({_CODE})\n",
    "a form feed": f"\f exec({_CODE})\n".replace(" ", "", 1) + _body("return 1"),
    "a continued line": _body(f"a = \\\n    exec\nreturn a \\\n    ({_CODE})"),
    "a wide operator": _body(f"ｍajority = exec\nreturn majority({_CODE})"),
    "a map": _body(f"return majority(map(exec, [{_CODE}]))"),
    "an attribute": _body(f"return numbers.__globals__['__builtins__']['exec']({_CODE})"),
    "an operator's builtins": _body(f"return numbers.__builtins__['exec']({_CODE})"),
    "the builtins": _body(f"return __builtins__.exec({_CODE})"),
    "an import by name": _body("a = __import__\nreturn a('builtins')"),
    "a format": _body("return '{0.__globals__}'.format(numbers)"),
    "a generator's frame": _body("return (x for x in n).gi_frame.f_back.f_back.f_globals"),
    "a traceback": _body("try: n[99]\nexcept IndexError as e: return e.__traceback__.tb_frame.f_back.f_globals"),
    "run": _body(f"return run({_CODE}, problem)"),
    "test": _body(f"return test({_CODE}, 'assert f(2) == 4')"),
    "a method": _body(f"return n.__class__([exec])[0]({_CODE})"),
    "the breakpoint's hook": _body("a = breakpoint\nreturn a()"),
}

PATCHES = {
    "ending of values": _ENDING,
    "ending of errors": f"{_RUN}r.error_ending = lambda e: ('ok', {POISON}, None)",
    "the run itself": f"{_RUN}r.run_program = lambda *a: ('ok', {POISON}, None)",
    "the zygote's run": f"import __main__ as m\nm.run_program = lambda *a: ('ok', {POISON}, None)",
    "the zygote's list": f"import __main__ as m\nm._run_each = lambda c, q: [('ok', {POISON}, None)] * len(q)",
    "the compiler": f"import __main__ as m\nc = m.compile_program\n"
    f"m.compile_program = lambda t: c('solve=lambda p:{POISON}')",
    "the operators": f"{_OPERATORS}b.OPERATORS['numbers'] = lambda t: [{POISON}] * 9",
    "an operator's code": f"{_OPERATORS}b.numbers.__code__ = (lambda text: [{POISON}] * 9).__code__",
    "what operators call": f"{_OPERATORS}b._evaluate = lambda n: {POISON}",
    "len": f"import builtins\nbuiltins.len = lambda x: {POISON}",
    "no builtins": "import builtins\nvars(builtins).clear()",
    "all modules": "import sys\nfor k in list(sys.modules): sys.modules[k] = None",
    "the depth of recursion": "import sys\nsys.setrecursionlimit(sys.getrecursionlimit() // 20)",
    "a trace": "import sys\nsys.settrace(lambda f, e, a: f.f_locals.clear() or 1 / 0)",
    "an audit hook": "import sys\nsys.addaudithook(lambda e, a: 1 / 0 if e == 'compile' else None)",
    "the garbage collector": "import gc\ngc.callbacks.append(lambda *a: exit())\ngc.set_threshold(1)",
    "a finalizer": f"class D:\n    def __del__(s): exec({_ENDING!r})\nd = D()\nd.d = d\ndel d",
    "small integers": "import ctypes\nctypes.memset(id(6) + 24, 77, 1)\nctypes.memset(id(42) + 24, 77, 1)",
    "an operator's memory": f"{_OPERATORS}import ctypes\nctypes.memset(id(b.numbers) + 16, 0, 64)",
    "chance": "import random\nrandom.seed(777)",
    "answers of others": f"import sys\nf = sys._getframe()\nwhile f:\n    for v in f.f_locals.values():\n"
    f"        if type(v) is list: v[:] = [['ok', {POISON}, None]] * len(v)\n    f = f.f_back",
    "questions of others": "import gc\nfor v in gc.get_objects():\n"
    "    if type(v) is list and '12 boxes of 6 pens' in v: v[:] = ['777 of 777'] * len(v)",
    "an answer before": "import gc\n"
    "seen = [o for o in gc.get_objects() if type(o) is tuple and o[:1] == ('ok',)]\nraise ValueError(seen)",
    "the pipe": f"import os\nos.write(3, b'[[\"ok\", {POISON}, null]]')",
    "the pipe's end": "import os\nos.close(3)",
    "the end": "import os\nos._exit(0)",
    "an abort": "import os\nos.abort()",
    "a fault": "import ctypes\nctypes.string_at(1)",
    "an interrupt": "raise KeyboardInterrupt",
    "memory": "import builtins\nbuiltins.kept = bytearray(200 << 20)",
    "time": "import time\ntime.sleep(0.3)",
    "the conversation": f"import tasks.programs.operators.model_calls as m\n"
    f"m.MODEL_OPERATORS['ask'] = lambda *a: {POISON}",
    "print": "import sys\nsys.stdout = sys.stderr = None",
}  # fmt: skip


def poisons() -> dict[str, str]:
    """Name → code of all programs: a vehicle with one patch, and each patch executed under an operator's name."""
    patched = {
        f"patch: {name}": _body(f"majority = exec\na = majority({code!r})\nreturn 1") for name, code in PATCHES.items()
    }
    return {f"vehicle: {name}": code for name, code in VEHICLES.items()} | patched
