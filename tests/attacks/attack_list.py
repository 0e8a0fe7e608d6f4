"""Programs that try to hang, flood, escape, spy or cheat, and how each must end.

`{secret}`, `{folder}`, `{pid}`, `{host}` and `{port}` become a file with a secret, a folder that everyone may write
to, a process of this user, this process and a TCP port that listens.
"""

from tasks.programs.contract import HEADER

SECRET = "k8Zq-secret-77231"
EXPECTED = 7254.5
"""The answer of the question that is asked. It is in the host alone."""
QUESTION = "What is it that nobody inside can know?"

LIBC = "import sys\nlibc = sys.modules['ctypes'].CDLL(None)\n"
SOLVE = "def solve(problem):\n    "
BITS_32 = (  # where number 10 is `unlink`; to a filter that does not look at the interface it is `mprotect`
    "import ctypes as c\n    libc.mmap.restype = c.c_size_t\n    place = libc.mmap(0, 4096, 7, 0x62, -1, 0)\n"
    "    code = b'\\x53\\xb8\\x0a\\0\\0\\0\\xbb' + (place + 64).to_bytes(4, 'little') + b'\\xcd\\x80\\x5b\\xc3'\n"
    "    c.memmove(place, code.ljust(64, b'\\0') + b'{secret}\\0', 65 + len('{secret}'))\n"
    "    return c.CFUNCTYPE(c.c_int)(place)()"
)

TIME = {
    "loop": SOLVE + "while True: pass",
    "asyncio": "import asyncio\n" + SOLVE + "asyncio.run(asyncio.sleep(10**6))",
    "read the keyboard": SOLVE + "return input()",
    "read the keyboard by libc": LIBC + SOLVE + "return libc.read(0, bytes(9), 9)",
    "sleep": "import time\n" + SOLVE + "time.sleep(10**6)",
    "swallow everything": SOLVE
    + "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
    "ignore alarms": "import sys\n" + SOLVE + "s = sys.modules['signal']\n"
    "    try: s.signal(s.SIGALRM, s.SIG_IGN); s.setitimer(s.ITIMER_REAL, 0)\n"
    "    except BaseException: pass\n    while True: pass",
    "big power": SOLVE + "return 7 ** 7 ** 7 ** 7",
    "catastrophic regex": "import re\n" + SOLVE + "return re.match('(a+)+$', 'a' * 40 + 'b')",
    "loop at import": "while True: pass\n" + SOLVE + "return 1",
    "close all and loop": "import os\n" + SOLVE + "os.closerange(0, 99)\n    while True: pass",
    "stop itself": "import os\n" + SOLVE + "try: os.kill(os.getpid(), 19)\n    finally:\n        while True: pass",
    "endless iterator": "import itertools\n" + SOLVE + "return sum(itertools.repeat(1))",
    "endless text of an error": "class E(Exception):\n    def __str__(self):\n        while True: pass\n"
    + SOLVE
    + "raise E",
    "die never": "import os, atexit\n"
    + SOLVE
    + "atexit.register(solve)\n    while True:\n        try: os.abort\n        finally: continue",
}
MEMORY = {
    "bytearray": SOLVE + "return len(bytearray(2 * 10**9))",
    "list": SOLVE + "return len([0] * 10**9)",
    "format": SOLVE + "return len('{:>2000000000}'.format(1))",
    "growing dict": "d = {}\n" + SOLVE + "while True: d[len(d)] = 'x' * 1000",
    "recursion": SOLVE + "return solve(problem)",
    "recursion without a limit": "import sys\n" + SOLVE + "sys.setrecursionlimit(10**9)\n    return solve(problem)",
    "native recursion": "import sys\nsys.setrecursionlimit(10**9)\n"
    + SOLVE
    + "x = []\n    for _ in range(10**6): x = [x]\n    return len(repr(x))",
    "shared memory": LIBC + SOLVE + "return libc.mmap(0, 2 << 30, 3, 33, -1, 0) == -1 and 5",
    "return 50 MB": SOLVE + "return 'x' * 50_000_000",
    "write 200 MB": SOLVE + "for _ in range(200): print('x' * 10**6)\n    return 1",
    "raise 50 MB": SOLVE + "raise ValueError('x' * 50_000_000)",
}
PROCESSES = {
    "fork": "import os\n" + SOLVE + "if os.fork() == 0:\n        while True: pass\n    return 1",
    "fork and leave the session": "import os\n"
    + SOLVE
    + "if os.fork() == 0:\n        os.setsid()\n        while True: pass\n    return 1",
    "double fork": "import os\n"
    + SOLVE
    + "if os.fork() == 0:\n        if os.fork() == 0:\n            while True: pass\n        os._exit(0)\n    return 1",
    "twenty forks by posix": "import posix\n" + SOLVE + "for _ in range(20): posix.fork()\n    while True: pass",
    "fork by libc": LIBC + SOLVE + "pid = libc.fork()\n    while pid == 0: pass\n    return 1",
    "clone by system call": LIBC
    + SOLVE
    + "pid = libc.syscall(56, 17, 0, 0, 0, 0)\n    while pid == 0: pass\n    return 1",
    "fork by the x32 interface": LIBC
    + SOLVE
    + "pid = libc.syscall(0x40000000 + 57)\n    while pid == 0: pass\n    return 1",
    "unlink by the 32-bit interface": LIBC + SOLVE + BITS_32,
    "threads": "import _thread, time\n"
    + SOLVE
    + "for _ in range(2000): _thread.start_new_thread(time.sleep, (99,))\n    return 1",
    "subprocess": "import subprocess\n" + SOLVE + "return subprocess.run(['touch', '{folder}/made']).returncode",
    "os.system": "import os\n" + SOLVE + "return os.system('echo x > {folder}/made')",
    "posix.system": "import posix\n" + SOLVE + "return posix.system('echo x > {folder}/made')",
    "libc system": LIBC + SOLVE + "return libc.system(b'echo x > {folder}/made')",
    "execve": "import os\n" + SOLVE + "os.execve('/bin/sh', ['sh', '-c', 'echo x > {folder}/made'], {})",
    "spawn": "import posix\n"
    + SOLVE
    + "return posix.posix_spawn('/bin/sh', ['sh', '-c', 'echo x > {folder}/made'], {})",
    "kill a stranger": "import os\n" + SOLVE + "os.kill({pid}, 9)",
    "kill a stranger by posix": "import posix\n" + SOLVE + "posix.kill({pid}, 9)",
    "kill a stranger by libc": LIBC + SOLVE + "return libc.kill({pid}, 9)",
    "kill a stranger by tgkill": LIBC + SOLVE + "return libc.syscall(234, {pid}, {pid}, 9)",
    "kill the parent": "import os\n" + SOLVE + "os.kill(os.getppid(), 9)",
    "kill all": "import os\n" + SOLVE + "os.kill(-1, 9)",
    "trace the parent": "import os\n" + LIBC + SOLVE + "return libc.ptrace(16, os.getppid(), 0, 0)",
}
FILES = {
    "write": SOLVE + "open('{folder}/made', 'w').write('x')",
    "posix write": "import posix\n" + SOLVE + "posix.write(posix.open('{folder}/made', 65, 0o600), b'x')",
    "libc write": LIBC + SOLVE + "return libc.write(libc.open(b'{folder}/made', 65, 384), b'x', 1)",
    "append": SOLVE + "open('{secret}', 'a').write('x')",
    "truncate": "import os\n" + SOLVE + "os.truncate('{secret}', 0)",
    "unlink": "import os\n" + SOLVE + "os.unlink('{secret}')",
    "posix unlink": "import posix\n" + SOLVE + "posix.unlink('{secret}')",
    "pathlib unlink": "import pathlib\n" + SOLVE + "pathlib.Path('{secret}').unlink()",
    "rename": "import os\n" + SOLVE + "os.rename('{secret}', '{folder}/made')",
    "mkdir": "import os\n" + SOLVE + "os.mkdir('{folder}/made')",
    "symlink": "import os\n" + SOLVE + "os.symlink('{secret}', '{folder}/made')",
    "read through a symlink": "import os\n"
    + SOLVE
    + "os.symlink('{secret}', '{folder}/made')\n    return open('{folder}/made').read()",
    "read through a symlink that is there": SOLVE + "return open('{folder}/link').read()",
    "write through a symlink that is there": SOLVE + "open('{folder}/link', 'w').write('x')",
    "hijacked import": "import hijack\n" + SOLVE + "return hijack.SECRET",
    "hijacked import by path": "import sys\nsys.path.insert(0, '{folder}')\nimport hijack\n"
    + SOLVE
    + "return hijack.SECRET",
    "hard link": "import os\n" + SOLVE + "os.link('{secret}', '{folder}/made')",
    "named pipe": "import os\n" + SOLVE + "os.mkfifo('{folder}/made')",
    "change mode": "import os\n" + SOLVE + "os.chmod('{secret}', 0)",
    "read": SOLVE + "return open('{secret}').read()",
    "posix read": "import posix\n" + SOLVE + "return posix.read(posix.open('{secret}', 0), 99).decode()",
    "FileIO": "import _io\n" + SOLVE + "return _io.FileIO('{secret}').read().decode()",
    "loader": "import sys\n"
    + SOLVE
    + "m = sys.modules['_frozen_importlib_external']\n"
    + "    return m.SourceFileLoader('x', '{secret}').get_data('{secret}').decode()",
    "import from a folder": "import sys\n"
    + SOLVE
    + "m = sys.modules['_frozen_importlib_external']\n    return m.SourceFileLoader('x', '{secret}').load_module()",
    "list /": "import os\n" + SOLVE + "return ' '.join(os.listdir('{folder}'))",
    "fill the disk": SOLVE + "f = open('{folder}/made', 'wb')\n    while True: f.write(bytes(10**6))",
    "fill the disk by libc": LIBC
    + SOLVE
    + "f = libc.open(b'{folder}/made', 65, 384)\n    while libc.write(f, bytes(10**6), 10**6) > 0: pass\n    return f",
    "memory as a file": "import os\n" + SOLVE + "f = os.memfd_create('x')\n    while True: os.write(f, bytes(10**6))",
    "use up descriptors": "import os\n" + SOLVE + "while True: os.dup(3)",
    "use up descriptors by pipes": "import os\n" + SOLVE + "while True: os.pipe()",
    "use up descriptors by libc": LIBC + SOLVE + "while libc.dup(3) >= 0: pass\n    return 5",
}
SECRETS = {
    "environment": "import os\n" + SOLVE + "return str(os.environ) + str(dict(os.environb))",
    "own environment": SOLVE + "return open('/proc/self/environ').read()",
    "parent's environment": "import os\n" + SOLVE + "return open(f'/proc/{os.getppid()}/environ').read()",
    "a stranger's environment": SOLVE + "return open('/proc/{pid}/environ').read()",
    "host's memory": SOLVE + "return str(open('/proc/{host}/mem', 'rb').read(9))",
    "host's memory by libc": LIBC + SOLVE + "return libc.process_vm_readv({host}, 0, 0, 0, 0, 0) + 5",
    "libc environment": LIBC
    + SOLVE
    + "import ctypes\n    libc.getenv.restype = ctypes.c_char_p\n    return str(libc.getenv(b'GRAFT_SECRET'))",
    "frames": "import sys\n"
    + SOLVE
    + "f, seen = sys._getframe(), ''\n    while f: seen += str(f.f_locals); f = f.f_back\n    return seen[:3000]",
    "all texts": "import gc\n"
    + SOLVE
    + "return ' '.join(r for r in map(repr, gc.get_objects()) if 'k8Zq-' in r)[:3000]",
    "all numbers": "import gc\n"
    + SOLVE
    + "boxes = [o for o in gc.get_objects() if type(o) in (dict, list, tuple)]\n"
    + "    values = [v for o in boxes for v in (*o, *getattr(o, 'values', list)())]\n"
    + "    return max([v for v in values if type(v) is float and 7000 < v < 8000], default=0)",
    "__main__": "import sys\n" + SOLVE + "return str(vars(sys.modules['__main__']))[:3000]",
    "arguments": "import sys\n" + SOLVE + "return str(sys.argv) + str(sys.orig_argv)",
    "parent's memory": "import os\n" + SOLVE + "return str(open(f'/proc/{os.getppid()}/mem', 'rb').read(9))",
    "parent's memory by libc": "import os\n"
    + LIBC
    + SOLVE
    + "return libc.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0) + 5",
    "frames of a traceback": SOLVE
    + "try: 1 / 0\n    except ZeroDivisionError as e: f, seen = e.__traceback__.tb_frame, ''\n"
    + "    while f: seen += str(f.f_locals) + str(f.f_globals)[:400]; f = f.f_back\n    return seen[:3000]",
    "open descriptors": "import os\n"
    + SOLVE
    + "seen = b''\n    for fd in range(256):\n        try: seen += os.read(fd, 99)\n        except OSError: pass\n"
    + "    return seen.decode()",
    "generator frame": SOLVE
    + "g = (x for x in [1])\n    return str(g.gi_frame.f_back) + str(g.gi_frame.f_globals)[:3000]",
    "subclasses": SOLVE + "return [c for c in object.__subclasses__() if c.__name__ == 'Popen'][0]",
    "format leak": SOLVE + "return '{0.__globals__}'.format(solve)[:3000]",
}
ADDRESS = "b'\\x02\\x00' + ({port}).to_bytes(2, 'big') + b'\\x7f\\x00\\x00\\x01' + bytes(8)"
"""`struct sockaddr_in` of {port} on 127.0.0.1."""

NETWORK = {
    "tcp by libc": LIBC + SOLVE + "s = libc.socket(2, 1, 0)\n    a = ADDRESS\n    return libc.connect(s, a, 16)",
    "udp by libc": LIBC + SOLVE + "s = libc.socket(2, 2, 0)\n    a = ADDRESS\n"
    "    return libc.sendto(s, b'secret', 6, 0, a, 16)",
    "name service": "import socket\n" + SOLVE + "return socket.gethostbyname('secret.example.org')",
    "name service by libc": LIBC + SOLVE + "return libc.gethostbyname(b'secret.example.org') or 5",
    "socket pair by libc": LIBC + SOLVE + "return libc.socketpair(1, 1, 0, bytes(8))",
    "abstract socket": LIBC
    + SOLVE
    + "s = libc.socket(1, 1, 0)\n    return libc.connect(s, b'\\x01\\x00\\x00graft-{port}', 3 + len('graft-{port}'))",
    "socket module": "import socket\n" + SOLVE + "socket.create_connection(('127.0.0.1', {port}))",
    "_socket module": "import _socket\n" + SOLVE + "_socket.socket().connect(('127.0.0.1', {port}))",
    "urllib": "import urllib.request\n" + SOLVE + "return urllib.request.urlopen('http://127.0.0.1:{port}').read()",
}
VERDICT = {
    "exit 0": "import sys\n" + SOLVE + "sys.exit(0)",
    "exit at once": "import os\n" + SOLVE + "os._exit(0)",
    "forged output": "import os\n" + SOLVE + "os.write(3, b'[\"ok\", true, null]')\n    os._exit(0)",
    "forged print": "import sys\n"
    + SOLVE
    + "for s in (sys.stdout, sys.__stdout__, sys.__stderr__): print('[\"ok\", 7254.5, null]', file=s, flush=True)\n"
    + "    return 1",
    "forged print by libc": LIBC + SOLVE + "libc.puts(b'[\"ok\", 7254.5, null]')\n    libc.fflush(0)\n    return 1",
    "forged status": "import os\n" + SOLVE + "os.write(3, b'[\"right\", 1, null]')\n    os._exit(0)",
    "forged infinity": "import os\n" + SOLVE + "os.write(3, b'[\"ok\", Infinity, null]')\n    os._exit(0)",
    "forged digits": "import os\n" + SOLVE + "os.write(3, b'[\"ok\", ' + b'9' * 9999 + b', null]')\n    os._exit(0)",
    "forged depth": "import os\n" + SOLVE + "os.write(3, b'[' * 60000)\n    os._exit(0)",
    "forged error": "import os\n"
    + SOLVE
    + "os.write(3, b'[\"error\", null, \"' + b'x' * 999 + b'\\\\ud800\"]')\n    os._exit(0)",
    "forged everywhere": "import os\n"
    + SOLVE
    + "for fd in range(64):\n        try: os.write(fd, b'{}' * 999)\n        except OSError: pass\n    return 1",
    "flood": "import os\n" + SOLVE + "while True: os.write(3, bytes(1 << 16))",
    "equal to everything": SOLVE
    + "class F(float):\n        __eq__ = lambda s, o: True\n        __sub__ = lambda s, o: 0.0\n    return F()",
    "patched abs": "import builtins\nbuiltins.abs = lambda x: 0\n" + SOLVE + "return 1",
    "patched type": "import builtins\nbuiltins.type = lambda x: int\n" + SOLVE + "return [1]",
    "patched json": "import json\njson.dumps = lambda x: '[\"ok\", [7], null]'\n" + SOLVE + "return 1",
    "nan": SOLVE + "return float('nan')",
    "pickle": SOLVE + "class P:\n        def __reduce__(self): return (eval, ('1',))\n    return P()",
    "poisoned modules": "import sys\nfor name in list(sys.modules): sys.modules[name] = None\n" + SOLVE + "return 1",
    "spoiled operators": "import sys\n"
    + SOLVE
    + "sys.modules['tasks.programs.operators.builtin']._QUANTITY = None\n    return 1",
    "late interrupt": "import atexit, os\n" + SOLVE + "atexit.register(os._exit, 0)\n    raise KeyboardInterrupt",
    "pickle of a stranger": SOLVE
    + "class P(float):\n        def __reduce__(self): return (print, ('1',))\n    return P(7254.5)",
    "interrupt": SOLVE + "raise KeyboardInterrupt",
    "abort": "import os\n" + SOLVE + "os.abort()",
    "fault": LIBC + SOLVE + "libc.strlen(1)",
    "error of errors": "class E(BaseException):\n    def __str__(self): raise self\n" + SOLVE + "raise E",
    "exception group": SOLVE + "raise ExceptionGroup('x', [ValueError(i) for i in range(999)])",
}
SOURCE = {
    "parentheses": "(" * 5000,
    "minus": "-" * 19_000 + "1",
    "200,000 minus": "-" * 200_000 + "1",
    "sum of 100,000": SOLVE + "return " + "+".join(["1"] * 100_000),
    "200,000 digits": SOLVE + "return " + "9" * 200_000,
    "sum": SOLVE + "return " + "+".join(["1"] * 9000),
    "NUL": "\0",
    "surrogate": "'\ud800'",
    "comment of 5 MB": "#" * 5_000_000,
    "digits": SOLVE + "return " + "9" * 19_000,
    "nested lambdas": SOLVE + "return " + "lambda:" * 400 + "1",
    "nested blocks": "".join(" " * depth + "if 1:\n" for depth in range(150)) + " " * 150 + "x = 1\n",
    "huge constant": SOLVE + "return 'x' * (10 ** 10)",
    "f-strings": "f'" + "{1}" * 6000 + "'",
    "decorators": "@print\n" * 2800 + "def solve(p): pass",
}
PLAIN = {
    "squares": HEADER + "    a = 7\n" + "    a = a * a\n" * 50 + "    return a",
    "long text": HEADER + "    return problem * 1000000000",
    "long list": HEADER + "    return majority([n * 1000000000])",
    "long text to read": HEADER + "    return numbers(problem * 100000000)",
    "high power": HEADER + "    return calculate('9 ** 9 ** 9 ** 9')",
    "growing power": HEADER + "    return calculate('(2 ** 4000) ** 4000')",
    "deep expression": HEADER + "    return calculate('" + "(" * 95 + "1" + ")" * 95 + "')",
    "minus signs": HEADER + "    return " + "-" * 220 + "1",
    "parentheses": HEADER + "    return " + "(" * 220 + "1",
    "brackets": HEADER + "    return " + "[" * 110 + "]" * 110,
    "f-strings": HEADER + "    return f'" + "{1}" * 70 + "'",
    "f-strings in f-strings": HEADER + "    return " + "f'{" * 50 + "1",
    "blocks": "".join(" " * depth + "if 1:\n" for depth in range(80)),
    "lines": "def solve(problem):\n" + "    (((((\n" * 370,
    "backslashes": HEADER + "    return 1" + " + \\\n1" * 600,
    "compared by hand": HEADER + "    return majority([numbers, numbers, problem])",
    "itself": HEADER + "    return solve",
    "a name of names": HEADER + "    return problem % problem",
    "format bomb": HEADER + "    a = '%999999999d'\n    return a % 1",
    "format bomb in an argument": HEADER + "    return majority(['%999999999d']) % 1",
}
"""Programs within the bounds of the warm tier, or near them: they meet the host's own parser first."""

CHANCE = {
    "clock": "import time\n" + SOLVE + "return time.perf_counter()",
    "time of day": "import datetime\n" + SOLVE + "return str(datetime.datetime.now())",
    "calendar's clock": "import calendar\n" + SOLVE + "return calendar.datetime.datetime.now().timestamp()",
    "processor time": "import sys\n" + SOLVE + "return sys.modules['time'].process_time_ns()",
    "kernel's chance": "import os\n" + SOLVE + "return os.urandom(9).hex()",
    "SystemRandom": "import random\n" + SOLVE + "return random.SystemRandom().random()",
    "unseeded Random": "import random\n" + SOLVE + "return random.Random().random()",
    "another module's": "import statistics\n" + SOLVE + "return statistics.random.SystemRandom().random()",
    "address": SOLVE + "return id(object())",
    "address of a text": SOLVE + "return id(problem)",
    "hash of an object": SOLVE + "return hash(solve)",
    "text of a function": SOLVE + "return str(solve)",
    "text of an operator": SOLVE + "return f'{numbers}'",
    "text of a method": SOLVE + "return '%s' % problem.upper",
    "text of an iterator": SOLVE + "return repr(map(len, problem))[-9:]",
    "process": "import os\n" + SOLVE + "return os.getpid()",
    "fullwidth": SOLVE + "return ｉｄ(problem)",  # to Python the same name
    "hidden": SOLVE + "return eval('i' + 'd')(problem)",
    "found": SOLVE + "return [v for v in vars(__builtins__).items() if v[0] == 'i' + 'd'][0][1](problem)",
}
"""Programs with another answer in each run."""

KINDS = {
    "time": TIME,
    "memory": MEMORY,
    "processes": PROCESSES,
    "files": FILES,
    "secrets": SECRETS,
    "network": NETWORK,
    "verdict": VERDICT,
    "source": SOURCE,
    "plain": PLAIN,
    "chance": CHANCE,
}
ATTACKS = {f"{kind}: {name}": code for kind, programs in KINDS.items() for name, code in programs.items()}

ENDS = {
    "time": "timeout",
    "memory": "memory",
    "processes": "error",
    "files": "error",
    "secrets": "error",
    "network": "error",
    "verdict": "error",
    "source": "error",
    "plain": "error",
    "chance": "error",
}
"""How attacks of a kind end, with seccomp: the kernel says no, Python raises."""

OTHERWISE = {
    "error": [
        "time: asyncio",  # not to be imported
        "time: read the keyboard",  # which is /dev/null
        "memory: recursion",
        "memory: return 50 MB",
        "memory: raise 50 MB",
    ],
    "ok|timeout": ["memory: write 200 MB"],  # to /dev/null
    "timeout": ["memory: native recursion", "memory: recursion without a limit"],
    "error|ok": [  # they show addresses: found out, unless the second run is out of time
        "secrets: frames",
        "secrets: frames of a traceback",
        "secrets: __main__",
        "secrets: generator frame",
        "secrets: format leak",
        *(f"chance: {name}" for name in CHANCE),
    ],
    "memory|timeout": ["memory: growing dict", "plain: squares"],
    "memory": [
        "source: huge constant",
        "plain: long text",
        "plain: long text to read",
        "plain: format bomb",
        "plain: format bomb in an argument",
    ],
    "killed": [
        "time: close all and loop",  # nobody listens to it any more
        "verdict: exit at once",
        "verdict: forged status",
        "verdict: forged digits",
        "verdict: forged depth",
        "verdict: forged everywhere",
        "verdict: flood",
        "verdict: abort",
        "verdict: fault",
        "processes: unlink by the 32-bit interface",
    ],
    "ok": [  # what C functions answer where the kernel says no, and what is no secret
        "time: read the keyboard by libc",
        "memory: shared memory",
        "processes: fork by libc",
        "processes: clone by system call",
        "processes: fork by the x32 interface",
        "processes: os.system",
        "processes: posix.system",
        "processes: libc system",
        "processes: kill a stranger by libc",
        "processes: kill a stranger by tgkill",
        "processes: trace the parent",
        "files: libc write",
        "files: fill the disk by libc",
        "files: use up descriptors by libc",
        "secrets: environment",
        "secrets: libc environment",
        "secrets: host's memory by libc",
        "secrets: parent's memory by libc",
        "secrets: all texts",
        "secrets: all numbers",
        "secrets: arguments",
        "secrets: open descriptors",
        "network: tcp by libc",
        "network: udp by libc",
        "network: name service by libc",
        "network: socket pair by libc",
        "network: abstract socket",
        "verdict: forged print",
        "verdict: forged print by libc",
        "verdict: patched abs",
        "verdict: patched json",
        "verdict: poisoned modules",
        "verdict: spoiled operators",
        "plain: deep expression",
        "plain: minus signs",
        "plain: f-strings",
        "plain: backslashes",
    ],
}


def right_statuses(name: str) -> set[str]:
    """The statuses that an attack may end with."""
    found = [statuses for statuses, names in OTHERWISE.items() if name in names]
    return set((found or [ENDS[name.partition(":")[0]]])[0].split("|"))
