"""Programs that look for the real time or for this machine, and the answers that they get here and elsewhere.

Elsewhere is another process: later, with Python and Graft in other folders, another home, user, host name and language,
one processor, a larger stack, and, as root, clocks since the start of the machine that are a day ahead.
"""

import getpass
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.programs.sandbox.sandbox import Program, Sandbox
from tests.attacks.attack_list import LIBC, solve

_TICKS = "ctypes = sys.modules['ctypes']\nspace = (ctypes.c_long * 2)()\n"
_ANEW = "del sys.modules['time']\nimport time\n"
_FIND = (
    "import gc, sys\n"
    "def find(matches):\n"
    "    gc.unfreeze()\n"
    "    seen, waiting, found = set(), [*gc.get_objects(), sys.modules], []\n"
    "    while waiting:\n"
    "        thing = waiting.pop()\n"
    "        if id(thing) not in seen:\n"
    "            seen.add(id(thing))\n"
    "            found += [thing] if matches(thing) else []\n"
    "            is_code = type(thing).__name__ == 'code'\n"
    "            waiting += [thing.co_filename, *thing.co_consts] if is_code else gc.get_referents(thing)\n"
    "    return found\n"
)
_CYCLES = (  # rdtsc; shl rdx, 32; or rax, rdx; ret
    "import ctypes as c\nlibc.mmap.restype = c.c_size_t\nplace = libc.mmap(0, 4096, 7, 0x22, -1, 0)\n"
    "c.memmove(place, b'\\x0f\\x31\\x48\\xc1\\xe2\\x20\\x48\\x09\\xd0\\xc3', 10)\n"
    "return c.CFUNCTYPE(c.c_long)(place)()"
)

_EXACT = {
    "original in a closure": solve("return str(time.gmtime.__closure__[0].cell_contents())", "time"),
    "originals in closures": solve(
        "found = []\nfor f in vars(time).values():\n    for cell in getattr(f, '__closure__', None) or ():\n"
        "        try: found.append(str(cell.cell_contents()))\n        except TypeError: pass\n"
        "return str(found)", "time"
    ),
    "time anew": solve(_ANEW + "return time.time()", "sys"),
    "monotonic anew": solve(_ANEW + "return time.monotonic_ns()", "sys"),
    "performance counter anew": solve(_ANEW + "return time.perf_counter()", "sys"),
    "processor time anew": solve(_ANEW + "return time.process_time_ns()", "sys"),
    "kernel's clock anew": solve(_ANEW + "return time.clock_gettime_ns(5)", "sys"),
    "time since the start anew": solve(_ANEW + "return time.clock_gettime(7)", "sys"),
    "date anew": solve(_ANEW + "return str(time.gmtime())", "sys"),
    "formatted anew": solve(_ANEW + "return time.ctime() + time.asctime() + time.strftime('%c')", "sys"),
    "description of a clock": solve(_ANEW + "return str(time.get_clock_info('time'))", "sys"),
    "reloaded": solve("return importlib.reload(time).time()", "importlib, time"),
    "by its loader": solve("return time.__loader__.load_module('time').time()", "time"),
    "of its specification": solve(
        "m = time.__loader__.create_module(time.__spec__)\ntime.__loader__.exec_module(m)\nreturn m.time()", "time"
    ),
    "by importlib's parts": solve("m = _imp.create_builtin(time.__spec__)\n_imp.exec_builtin(m)\nreturn m.time()",
                                  "_imp, time"),
    "of a module that keeps it": solve(
        "return sys.modules['tasks.programs.sandbox.children'].monotonic()", "sys, tasks.programs.sandbox.children"
    ),
    "of a limit": solve("return sys.modules['tasks.programs.sandbox.children'].TimeLimit(0).deadline", "sys"),
    "of the caller's modules": solve(
        "f = sys._getframe()\nwhile 'monotonic' not in f.f_globals: f = f.f_back\nreturn f.f_globals['monotonic']()",
        "sys"
    ),
    "among all objects": _FIND + solve(
        "names = ('time', 'monotonic', 'time_ns', 'perf_counter')\n"
        "found = find(lambda x: type(x) is type(len) and x.__name__ in names and not x.__self__ is None)\n"
        "texts = set()\nfor f in found:\n    try: texts.add(str(f()))\n    except OSError: pass\n"
        "return str(sorted(texts))"
    ),
    "datetime in C": solve(
        "sys.modules.pop('_datetime')\nimport _datetime\nreturn str(_datetime.datetime.now())", "sys"
    ),
    "datetime by another module": solve("return str(_strptime.datetime_date.today()) + str(_strptime.time.time())",
                                        "_strptime"),
    "a new datetime": solve(
        _ANEW + "import datetime\ndatetime._time = time\nreturn str(datetime.datetime.now())", "sys"
    ),
    "C's generator": solve("return sys.modules['_random'].Random().random()", "sys"),
    "random with C's seed": solve("return random.Random.__mro__[1].__new__(random.Random).random()", "random"),
    "random anew": solve("del sys.modules['_random']\nimport _random\nreturn _random.Random().random()", "sys"),
    "libc's clock": solve(_TICKS + "libc.clock_gettime(0, space)\nreturn space[0]", LIBC),
    "libc's time": solve("return libc.time(0)", LIBC),
    "libc's time of day": solve(_TICKS + "libc.gettimeofday(space, 0)\nreturn space[0]", LIBC),
    "libc's coarse clock": solve(_TICKS + "libc.clock_gettime(6, space)\nreturn space[0]", LIBC),
    "libc's C11": solve(_TICKS + "libc.timespec_get(space, 1)\nreturn space[0]", LIBC),
    "system call": solve(_TICKS + "libc.syscall(228, 0, space)\nreturn space[0]", LIBC),
    "mapped function": solve(
        _TICKS + "v = ctypes.CDLL('linux-vdso.so.1', mode=4)\nv.__getattr__('__vdso_clock_gettime')(0, space)\n"
        "return space[0]", "sys"
    ),
    "mapped pages": solve(
        "ctypes = sys.modules['ctypes']\nlibc.getauxval.restype = ctypes.c_ulong\nfound = b''\n"
        "for page in range(1, 7): found += ctypes.string_at(libc.getauxval(33) - 4096 * page, 4096)\n"
        "return sum(found)", LIBC
    ),
    "fixed page": solve(
        _TICKS + "ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)(0xffffffffff600000)(space, 0)\n"
        "return space[0]", "sys"
    ),
    "counter of cycles": solve(_CYCLES, LIBC),
    "a time that is past": solve(
        _TICKS + "space[0] = 1700000000\nreturn libc.clock_nanosleep(0, 1, space, 0) + 7", LIBC
    ),
    "a time that is past, by a futex": solve(
        _TICKS + "space[0] = 1700000000\nreturn libc.syscall(202, space, 0x189, 0, space, 0, -1)"
        " + 3 * ctypes.get_errno()", LIBC
    ),
    "load": solve("return str(os.times()) + str(os.getloadavg())", "os"),
    "times of a file": solve("return os.stat('/proc/self').st_mtime_ns", "os"),
    "time of the zygote's file": solve("return json.__loader__.path_stats(json.__file__)['mtime']", "json"),
    "since the start": solve("return open('/proc/uptime').read()"),
    "processor": solve("return libc.sched_getcpu() + 9", LIBC),
    "usage": solve("return str(resource.getrusage(0))", "resource"),
    "uuid": solve("return str(uuid.uuid1())", "uuid"),
    "record of a log": solve("return logging.LogRecord('', 0, '', 0, '', (), None).created", "logging"),
    "start of logging": solve("return logging._startTime", "logging"),
}  # fmt: skip

_COARSE = """
import re
exact = solve
def solve(problem):
    v = exact(problem)
    if type(v) is str: return str(sorted(set(re.findall(r'\\b[12][0-9]{3}\\b', v))))
    return int(v // (5 * 10**4 if v < 10**11 else 5 * 10**13))
"""
"""Returns the years in a text, or half a day of a number of seconds or nanoseconds: two runs in a row agree on them."""

CLOCKS = _EXACT | {f"{name}, coarsely": code + _COARSE for name, code in _EXACT.items()}
"""Programs that look for a clock that runs."""

MACHINE = {
    "a module": solve("return str(re)", "re"),
    "file of a module": solve("return json.decoder.__file__", "json.decoder"),
    "length of a file": solve("return len(json.__file__)", "json"),
    "folder of a package": solve("return str(json.__path__)", "json"),
    "cached file": solve("return json.__cached__", "json"),
    "origin": solve("return re.__spec__.origin + str(re.__spec__)", "re"),
    "loader": solve("return json.__loader__.path", "json"),
    "code": solve("return json.dumps.__code__.co_filename", "json"),
    "code of Graft": solve("return numbers.__code__.co_filename"),
    "globals of Graft": solve("return numbers.__globals__['__file__']"),
    "module of Graft": solve("return str(sys.modules['tasks'].__path__)", "sys"),
    "compiled module": solve("return str(math)", "math"),
    "executable": solve("return sys.executable", "sys"),
    "base of the executable": solve("return sys._base_executable", "sys"),
    "prefixes": solve("return sys.prefix + sys.exec_prefix + sys.base_prefix + sys.base_exec_prefix", "sys"),
    "library": solve("return str(sys._stdlib_dir) + sys.platlibdir", "sys"),
    "path": solve("return str(sys.path) + str(sys.path_importer_cache)", "sys"),
    "command": solve("return str(sys.argv) + str(sys.orig_argv)", "sys"),
    "build": solve("return sys.version", "sys"),
    "site": solve("return str(site.getsitepackages())", "site"),
    "sysconfig": solve("return str(sysconfig.get_paths())", "sysconfig"),
    "platform": solve("return platform.platform()", "platform"),
    "processors": solve("return os.cpu_count()", "os"),
    "processors of posix": solve("del sys.modules['posix']\nimport posix\nreturn posix.cpu_count()", "sys"),
    "usable processors": solve("return len(os.sched_getaffinity(0))", "os"),
    "configured processors": solve("return os.sysconf('SC_NPROCESSORS_ONLN')", "os"),
    "cache": solve("return os.sysconf('SC_LEVEL3_CACHE_SIZE')", "os"),
    "memory": solve("return posix.sysconf('SC_PHYS_PAGES')", "posix"),
    "host": solve("return str(os.uname())", "os"),
    "host by socket": solve("return socket.gethostname()", "socket"),
    "host by libc": solve("b = bytes(99)\nlibc.gethostname(b, 99)\nreturn str(b)", LIBC),
    "user": solve("return getpass.getuser()", "getpass"),
    "user by its number": solve("return str([os.getuid(), os.geteuid(), os.getgid(), os.getegid()])", "os"),
    "user of the terminal": solve("return os.getlogin()", "os"),
    "home": solve("return os.path.expanduser('~')", "os"),
    "home of root": solve("return os.path.expanduser('~root')", "os"),
    "current folder": solve("return os.getcwd()", "os"),
    "absolute path": solve("return os.path.abspath('x')", "os"),
    "environment": solve("return str(os.environ) + str(posix.environ)", "os, posix"),
    "environment by libc": solve(
        "ctypes = sys.modules['ctypes']\nlibc.getenv.restype = ctypes.c_char_p\n"
        "return str([libc.getenv(n) for n in (b'HOME', b'USER', b'LANG', b'PATH', b'PWD', b'TZ')])", LIBC
    ),
    "Python's home by libc": solve(
        "libc.getenv.restype = sys.modules['ctypes'].c_char_p\nreturn str(libc.getenv(b'PYTHONHOME'))", LIBC
    ),
    "name of the program": solve(
        "libc.getauxval.restype = sys.modules['ctypes'].c_char_p\nreturn str(libc.getauxval(31))", LIBC
    ),
    "language": solve("return str(locale.getlocale()) + str(locale.localeconv())", "locale"),
    "encoding": solve("return locale.getpreferredencoding() + sys.getfilesystemencoding()", "locale, sys"),
    "zone": solve("return str(time.tzname) + str(time.timezone)", "time"),
    "folder of temporary files": solve("return tempfile.gettempdir()", "tempfile"),
    "process": solve("return str([os.getpid(), os.getppid(), os.getpgrp()])", "os"),
    "parent in a frame": solve(
        "f, found = sys._getframe(), []\nwhile f:\n"
        "    found += [c.cell_contents for s in f.f_locals.get('steps', ()) for c in getattr(s, '__closure__', None)"
        " or ()]\n    f = f.f_back\nreturn str(found)", "sys"
    ),
    "thread": solve("return str([_thread.get_ident(), _thread.get_native_id()])", "_thread"),
    "main thread": solve("return str(threading.main_thread().native_id)", "threading"),
    "limits": solve("return str([resource.getrlimit(n) for n in range(16)])", "resource"),
    "stack": "import functools, sys\n@functools.cache\ndef f(n): return n and 1 + f(n - 1)\n"
    + solve("sys.setrecursionlimit(10**6)\nreturn f(40000)"),
    "size of a cache by its number": solve("return os.sysconf(194)", "os"),
    "root folder": solve("return str(os.stat('/')) + str(os.statvfs('/'))", "os"),
    "list of a folder": solve("return str(os.listdir('/'))", "os"),
    "processors by the kernel": solve("return open('/proc/cpuinfo').read()[:999]"),
    "mappings": solve("return open('/proc/self/maps').read()[:999]"),
    "error of an import": solve("from json import nothing"),
    "text of an error": solve("try:\n    from json import nothing\nexcept ImportError as e: return str(e)"),
    "path of an error": solve("try:\n    from json import nothing\nexcept ImportError as e: return e.path"),
    "trace": solve("try: json.loads('{')\nexcept ValueError: return traceback.format_exc()", "json, traceback"),
    "files of frames": solve(
        "f, found = sys._getframe(), []\nwhile f:\n    found.append(f.f_code.co_filename)\n    f = f.f_back\n"
        "return str(found)", "sys"
    ),
    "all paths": _FIND + solve(
        "return str(sorted({t for t in find(lambda x: type(x) is str) if t[:1] == '/'}))[:3000]"
    ),
    "all texts": _FIND + solve("return sum(map(len, {t for t in find(lambda x: type(x) is str)}))"),
    "main module": solve("return str(sorted((k, v) for k, v in vars(sys.modules['__main__']).items()"
                         " if type(v) in (str, int)))", "sys"),
    "classes with files": solve(
        "return str([vars(sys.modules[c.__module__]).get('__file__') for c in object.__subclasses__()"
        " if c.__module__ in sys.modules][-9:])", "sys"
    ),
    "lines that are kept": solve("return str(sorted(sys.modules['linecache'].cache))", "sys"),
}  # fmt: skip
"""Programs that look for something of this machine: folders, processors, memory, names, language."""

_ELSEWHERE = """
import contextlib, ctypes, json, os, resource, socket, sys
libc = ctypes.CDLL(None)
if libc.unshare(0x04000000) == 0:  # CLONE_NEWUTS
    socket.sethostname("elsewhere")
if libc.unshare(0x80) == 0:  # CLONE_NEWTIME, for children
    with contextlib.suppress(OSError), open("/proc/self/timens_offsets", "w") as offsets:
        offsets.write("monotonic 86400 0\\nboottime 86400 0\\n")
with contextlib.suppress(ValueError):
    resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.executable, sys.base_prefix = sys.argv[1:]
from tasks.programs.sandbox.sandbox import Program, Sandbox
with Sandbox(5.0, 256, allow_weak=False, workers=1) as sandbox:
    results = sandbox.run([Program(code, ("",)) for code in json.load(sys.stdin)])
print(json.dumps([result.model_dump(mode="json") for (result,) in results]))
"""


def answers_here(programs: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Name → result."""
    with Sandbox(5.0, 256, allow_weak=False, workers=1) as sandbox:
        results = sandbox.run([Program(code, ("",)) for code in programs.values()])
    return {name: result.model_dump(mode="json") for name, (result,) in zip(programs, results, strict=True)}


def answers_elsewhere(programs: Mapping[str, str], folder: Path) -> dict[str, dict[str, Any]]:
    """Name → result. In `folder` links to Python and to Graft are made."""
    root = folder / "home" / "somebody"
    root.mkdir(parents=True)
    (root / "python").symlink_to(sys.base_prefix)
    (root / "tasks").symlink_to(Path(__file__).parents[2] / "tasks")
    python = root / "python" / os.path.relpath(os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix))
    names = {"HOME": str(root), "USER": "somebody", "LOGNAME": "somebody", "LANG": "C", "TZ": "Asia/Tokyo"}
    ended = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, str(python), str(root / "python")],
        cwd=root,
        env=names | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
        input=json.dumps(list(programs.values())),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(programs, json.loads(ended.stdout), strict=True))


def shown(here: object, elsewhere: object) -> set[str]:
    """What the answers of a program here and elsewhere show of time and machine: nothing if the sandbox holds."""
    names = {sys.base_prefix, sys.prefix, sys.executable, str(Path(__file__).parents[2]), str(Path.home()), "somebody"}
    names |= {socket.gethostname(), f"'{getpass.getuser()}'", "elsewhere", f"{time.gmtime().tm_year}"}
    names |= {f"{int(time.time()) // 50_000}"}
    differ = {"a difference"} if here != elsewhere else set()
    return differ | {name for name in names if name in f"{here} {elsewhere}"}
