"""Programs that try to change what a later program in the same process finds, or to read what an earlier one left.

`VEHICLES` are ways to get code executed that looks like arithmetic, all with the same patch. `PATCHES` are states of a
process that one program could leave to the next, as code of at most 200 characters.
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
    "another operator's name": _body(f"compare = exec\na = compare({_CODE})\nreturn 1"),
    "an operator's name for eval": _body("calculate = eval\nreturn calculate('__import__(\"os\").getpid() * 0 + 777')"),
    "an operator's name for id": _body("compare = id\nreturn compare(n)"),
    "an operator's name for compile": _body(f"compare = compile\na = exec\nreturn a(compare({_CODE}, '', 'exec'))"),
    "an operator's name for getattr": _body("compare = getattr\nreturn compare(numbers, '__globals__')"),
    "an operator's name for setattr": _body("compare = setattr\nreturn compare(numbers, '__defaults__', n)"),
    "an operator's name for globals": _body("numbers = globals\nreturn numbers()"),
    "an operator's name for vars": _body("context = vars\nreturn context(numbers)"),
    "an operator's name for type": _body("majority = type\nreturn majority(majority)"),
    "an operator for another": _body("numbers = majority\nreturn numbers([777, 777])"),
    "a model's operator": _body(f"majority = run\nreturn majority({_CODE}, problem)"),
    "itself": _body("majority = solve\nreturn majority(problem)"),
    "a name of its own": _body(f"a = exec\nreturn a({_CODE})"),
    "a chain of names": _body(f"a = exec\nb = a\nmajority = b\nreturn majority({_CODE})"),
    "two targets": _body(f"a = majority = exec\nreturn majority({_CODE})"),
    "a tuple of targets": _body(f"majority, compare = exec, id\nreturn majority({_CODE})"),
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
    "a function before": f"def majority(x):\n    return exec(x)\n{_body(f'return majority({_CODE})')}",
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
    "a statement behind": _body("return 1") + f"exec({_CODE})\n",
    "a condition at the top": f"if 1: exec({_CODE})\n" + _body("return 1"),
    "a semicolon": f"def solve(problem): a = exec; return a({_CODE})\n",
    "a semicolon at the top": f"0; exec({_CODE})\n" + _body("return 1"),
    "a form feed": f"\f exec({_CODE})\n".replace(" ", "", 1) + _body("return 1"),
    "a continued line": _body(f"a = \\\n    exec\nreturn a \\\n    ({_CODE})"),
    "wide letters": _body(f"a = ｅｘｅｃ\nreturn a({_CODE})"),
    "a wide operator": _body(f"ｍajority = exec\nreturn majority({_CODE})"),
    "a key": _body(f"return max([{_CODE}], key=exec)"),
    "a sort": _body(f"return sorted([{_CODE}], key=exec)[0]"),
    "a map": _body(f"return majority(map(exec, [{_CODE}]))"),
    "an attribute": _body(f"return numbers.__globals__['__builtins__']['exec']({_CODE})"),
    "an operator's builtins": _body(f"return numbers.__builtins__['exec']({_CODE})"),
    "the builtins": _body(f"return __builtins__.exec({_CODE})"),
    "the builtins by name": _body(f"a = __builtins__\nreturn a['exec']({_CODE})"),
    "an import by name": _body("a = __import__\nreturn a('builtins')"),
    "a format": _body("return '{0.__globals__}'.format(numbers)"),
    "subclasses": _body("return ().__class__.__base__.__subclasses__()"),
    "a generator's frame": _body("return (x for x in n).gi_frame.f_back.f_back.f_globals"),
    "a traceback": _body("try: n[99]\nexcept IndexError as e: return e.__traceback__.tb_frame.f_back.f_globals"),
    "run": _body(f"return run({_CODE}, problem)"),
    "test": _body(f"return test({_CODE}, 'assert f(2) == 4')"),
    "a method": _body(f"return n.__class__([exec])[0]({_CODE})"),
    "the breakpoint's hook": _body("a = breakpoint\nreturn a()"),
    "a license": _body("a = license\nreturn a()"),
}

PATCHES = {
    "ending of values": _ENDING,
    "ending of errors": f"{_RUN}r.error_ending = lambda e: ('ok', {POISON}, None)",
    "the run itself": f"{_RUN}r.run_program = lambda *a: ('ok', {POISON}, None)",
    "the zygote's run": f"import __main__ as m\nm.run_program = lambda *a: ('ok', {POISON}, None)",
    "the zygote's list": f"import __main__ as m\nm._run_each = lambda c, q: [('ok', {POISON}, None)] * len(q)",
    "the compiler": f"import __main__ as m\nc = m.compile_program\n"
    f"m.compile_program = lambda t: c('solve=lambda p:{POISON}')",
    "the solver": f"{_RUN}r._solver = lambda c: lambda p: {POISON}",
    "the guard": f"{_RUN}r.guarded = lambda s: ('ok', {POISON}, None)",
    "the operators": f"{_OPERATORS}b.OPERATORS['numbers'] = lambda t: [{POISON}] * 9",
    "all operators": f"{_RUN}r.ALL_OPERATORS.update(numbers=lambda t: [{POISON}] * 9, calculate=lambda t: {POISON})",
    "no operators": f"{_RUN}r.ALL_OPERATORS.clear()",
    "an operator's code": f"{_OPERATORS}b.numbers.__code__ = (lambda text: [{POISON}] * 9).__code__",
    "another operator's code": f"{_OPERATORS}b.majority.__code__ = (lambda answers: {POISON}).__code__",
    "an operator's globals": f"{_OPERATORS}b.numbers.__globals__['read_quantities'] = lambda t: ([{POISON}] * 9,)",
    "what operators call": f"{_OPERATORS}b._evaluate = lambda n: {POISON}",
    "words": f"{_OPERATORS}b._SMALL.update(dict.fromkeys(b._SMALL, {POISON}))",
    "the pattern of quantities": f"{_OPERATORS}import re\nb._QUANTITY = re.compile('x')",
    "the pattern of numbers": f"{_OPERATORS}import re\nb._NUMBER = re.compile('x')",
    "the limits": f"{_OPERATORS}b.MAX_TEXT = b.MAX_EXPRESSION = 0",
    "the longest value": f"{_RUN}r.MAX_VALUE = r.MAX_VALUE_TEXT = 0",
    "len": f"import builtins\nbuiltins.len = lambda x: {POISON}",
    "type": "import builtins\nbuiltins.type = lambda *a: int",
    "isinstance": "import builtins\nbuiltins.isinstance = lambda *a: False",
    "max": f"import builtins\nbuiltins.max = lambda *a, **k: {POISON}",
    "exec": "import builtins\nbuiltins.exec = lambda *a: None",
    "compile": f"import builtins\nc = builtins.compile\n"
    f"builtins.compile = lambda s, *a, **k: c('solve=lambda p:{POISON}', '', 'exec')",
    "a builtin of its own": f"import builtins\nbuiltins.n = [{POISON}] * 9",
    "no builtins": "import builtins\nvars(builtins).clear()",
    "ast.parse": f"import ast\np = ast.parse\nast.parse = lambda *a, **k: p('{POISON}', mode='eval')",
    "json.dumps": f"import json\n"
    f"json.dumps = lambda e, *a: '[' + ', '.join(['[\"ok\", {POISON}, null]'] * len(e)) + ']'",
    "json.loads": "import json\njson.loads = lambda *a: []",
    "math.isfinite": "import math\nmath.isfinite = lambda x: False",
    "fractions": "import fractions\nfractions.Fraction.__sub__ = lambda a, b: a",
    "the fractions' equality": "import fractions\n"
    "fractions.Fraction.__eq__ = fractions.Fraction.__le__ = lambda a, b: True",
    "re.findall": "import re\nre.findall = lambda *a: ['9' * 99]",
    "the cache of re": "import re\nre._cache.update({k: re.compile('x') for k in re._cache})",
    "all modules": "import sys\nfor k in list(sys.modules): sys.modules[k] = None",
    "the depth of recursion": "import sys\nsys.setrecursionlimit(sys.getrecursionlimit() // 20)",
    "digits of integers": "import sys\nsys.set_int_max_str_digits(640)",
    "a trace": "import sys\nsys.settrace(lambda f, e, a: f.f_locals.clear() or 1 / 0)",
    "a profile": "import sys\nsys.setprofile(lambda f, e, a: f.f_globals.update(numbers=lambda t: [777] * 9))",
    "an audit hook": "import sys\nsys.addaudithook(lambda e, a: 1 / 0 if e == 'compile' else None)",
    "the garbage collector": "import gc\ngc.callbacks.append(lambda *a: exit())\ngc.set_threshold(1)",
    "a finalizer": f"class D:\n    def __del__(s): exec({_ENDING!r})\nd = D()\nd.d = d\ndel d",
    "an object behind": f"import gc\nfor d in gc.get_objects():\n"
    f"    if type(d) is dict and 'numbers' in d: d['numbers'] = lambda t: [{POISON}] * 9",
    "small integers": "import ctypes\nctypes.memset(id(6) + 24, 77, 1)\nctypes.memset(id(42) + 24, 77, 1)",
    "an operator's memory": f"{_OPERATORS}import ctypes\nctypes.memset(id(b.numbers) + 16, 0, 64)",
    "warnings": "import warnings\nwarnings.simplefilter('error')",
    "the decimal context": "import decimal\ndecimal.getcontext().prec = 1",
    "chance": "import random\nrandom.seed(777)",
    "numbers' classes": "import numbers\nnumbers.Number.register(str)",
    "codecs": "import codecs\ncodecs.register_error('strict', lambda e: ('', e.end))",
    "encoding": "import json.encoder as e\ne.encode_basestring_ascii = lambda t: '777'",
    "the program's frame": "import sys\nf = sys._getframe()\nwhile f: f.f_globals['n'] = [777] * 9; f = f.f_back",
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
    "a clock": "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 777",
    "the conversation": f"import tasks.programs.operators.model_calls as m\n"
    f"m.MODEL_OPERATORS['ask'] = lambda *a: {POISON}",
    "print": "import sys\nsys.stdout = sys.stderr = None",
    "the printed sign": "import sys\nsys.float_repr_style = 'x'\nimport builtins\nbuiltins.repr = lambda x: '777'",
    "a copy of dict": "import builtins\nclass D(dict):\n    get = lambda s, *a: 777\nbuiltins.dict = D",
}  # fmt: skip


def poisons() -> dict[str, str]:
    """Name → code of all programs: a vehicle with one patch, and each patch executed under an operator's name."""
    patched = {
        f"patch: {name}": _body(f"majority = exec\na = majority({code!r})\nreturn 1") for name, code in PATCHES.items()
    }
    return {f"vehicle: {name}": code for name, code in VEHICLES.items()} | patched
