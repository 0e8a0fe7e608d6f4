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


def solve(body: str, *imports: str) -> str:
    """A program: imports, or LIBC, then `solve(problem)` with this body."""
    head = "".join(part if part == LIBC else f"import {part}\n" for part in imports)
    return head + SOLVE + body.replace("\n", "\n    ")


BITS_32 = (  # where number 10 is `unlink`; to a filter that does not look at the interface it is `mprotect`
    "import ctypes as c\n    libc.mmap.restype = c.c_size_t\n    place = libc.mmap(0, 4096, 7, 0x62, -1, 0)\n"
    "    code = b'\\x53\\xb8\\x0a\\0\\0\\0\\xbb' + (place + 64).to_bytes(4, 'little') + b'\\xcd\\x80\\x5b\\xc3'\n"
    "    c.memmove(place, code.ljust(64, b'\\0') + b'{secret}\\0', 65 + len('{secret}'))\n"
    "    return c.CFUNCTYPE(c.c_int)(place)()"
)

TIME = {
    "loop": solve("while True: pass"),
    "asyncio": solve("asyncio.run(asyncio.sleep(10**6))", "asyncio"),
    "read the keyboard": solve("return input()"),
    "read the keyboard by libc": solve("return libc.read(0, bytes(9), 9)", LIBC),
    "sleep": solve("time.sleep(10**6)", "time"),
    "swallow everything": solve("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
    "ignore alarms": "import sys\n" + SOLVE + "s = sys.modules['signal']\n"
    "    try: s.signal(s.SIGALRM, s.SIG_IGN); s.setitimer(s.ITIMER_REAL, 0)\n"
    "    except BaseException: pass\n    while True: pass",
    "big power": solve("return 7 ** 7 ** 7 ** 7"),
    "catastrophic regex": solve("return re.match('(a+)+$', 'a' * 40 + 'b')", "re"),
    "loop at import": "while True: pass\n" + SOLVE + "return 1",
    "close all and loop": solve("os.closerange(0, 99)\nwhile True: pass", "os"),
    "stop itself": solve("try: os.kill(os.getpid(), 19)\nfinally:\n    while True: pass", "os"),
    "endless iterator": solve("return sum(itertools.repeat(1))", "itertools"),
    "endless text of an error": "class E(Exception):\n    def __str__(self):\n        while True: pass\n"
    + SOLVE
    + "raise E",
    "die never": solve("atexit.register(solve)\nwhile True:\n    try: os.abort\n    finally: continue", "os, atexit"),
}
MEMORY = {
    "bytearray": solve("return len(bytearray(2 * 10**9))"),
    "list": solve("return len([0] * 10**9)"),
    "format": solve("return len('{:>2000000000}'.format(1))"),
    "growing dict": "d = {}\n" + SOLVE + "while True: d[len(d)] = 'x' * 1000",
    "recursion": solve("return solve(problem)"),
    "recursion without a limit": solve("sys.setrecursionlimit(10**9)\nreturn solve(problem)", "sys"),
    "native recursion": "import sys\nsys.setrecursionlimit(10**9)\n"
    + SOLVE
    + "x = []\n    for _ in range(10**6): x = [x]\n    return len(repr(x))",
    "shared memory": solve("return libc.mmap(0, 2 << 30, 3, 33, -1, 0) == -1 and 5", LIBC),
    "return 50 MB": solve("return 'x' * 50_000_000"),
    "write 200 MB": solve("for _ in range(200): print('x' * 10**6)\nreturn 1"),
    "raise 50 MB": solve("raise ValueError('x' * 50_000_000)"),
}
PROCESSES = {
    "fork": solve("if os.fork() == 0:\n    while True: pass\nreturn 1", "os"),
    "fork and leave the session": solve("if os.fork() == 0:\n    os.setsid()\n    while True: pass\nreturn 1", "os"),
    "double fork": "import os\n"
    + SOLVE
    + "if os.fork() == 0:\n        if os.fork() == 0:\n            while True: pass\n        os._exit(0)\n    return 1",
    "clock of a stranger": solve("return libc.clock_gettime(~{pid} << 3 | 2, bytes(16))", LIBC),
    "futex of a stranger": solve("return libc.syscall(202, bytes(({pid}).to_bytes(4, 'little')), 6, 0, 0)", LIBC),
    "twenty forks by posix": solve("for _ in range(20): posix.fork()\nwhile True: pass", "posix"),
    "fork by libc": solve("pid = libc.fork()\nwhile pid == 0: pass\nreturn 1", LIBC),
    "clone by system call": solve("pid = libc.syscall(56, 17, 0, 0, 0, 0)\nwhile pid == 0: pass\nreturn 1", LIBC),
    "fork by the x32 interface": solve("pid = libc.syscall(0x40000000 + 57)\nwhile pid == 0: pass\nreturn 1", LIBC),
    "unlink by the 32-bit interface": LIBC + SOLVE + BITS_32,
    "threads": solve("for _ in range(2000): _thread.start_new_thread(time.sleep, (99,))\nreturn 1", "_thread, time"),
    "subprocess": solve("return subprocess.run(['touch', '{folder}/made']).returncode", "subprocess"),
    "os.system": solve("return os.system('echo x > {folder}/made')", "os"),
    "posix.system": solve("return posix.system('echo x > {folder}/made')", "posix"),
    "libc system": solve("return libc.system(b'echo x > {folder}/made')", LIBC),
    "execve": solve("os.execve('/bin/sh', ['sh', '-c', 'echo x > {folder}/made'], {})", "os"),
    "spawn": solve("return posix.posix_spawn('/bin/sh', ['sh', '-c', 'echo x > {folder}/made'], {})", "posix"),
    "kill a stranger": solve("os.kill({pid}, 9)", "os"),
    "kill a stranger by posix": solve("posix.kill({pid}, 9)", "posix"),
    "kill a stranger by libc": solve("return libc.kill({pid}, 9)", LIBC),
    "kill a stranger by tgkill": solve("return libc.syscall(234, {pid}, {pid}, 9)", LIBC),
    "kill the parent": solve("os.kill(os.getppid(), 9)", "os"),
    "kill all": solve("os.kill(-1, 9)", "os"),
    "trace the parent": solve("return libc.ptrace(16, os.getppid(), 0, 0)", "os", LIBC),
}
FILES = {
    "write": solve("open('{folder}/made', 'w').write('x')"),
    "posix write": solve("posix.write(posix.open('{folder}/made', 65, 0o600), b'x')", "posix"),
    "libc write": solve("return libc.write(libc.open(b'{folder}/made', 65, 384), b'x', 1)", LIBC),
    "append": solve("open('{secret}', 'a').write('x')"),
    "truncate": solve("os.truncate('{secret}', 0)", "os"),
    "unlink": solve("os.unlink('{secret}')", "os"),
    "posix unlink": solve("posix.unlink('{secret}')", "posix"),
    "pathlib unlink": solve("pathlib.Path('{secret}').unlink()", "pathlib"),
    "rename": solve("os.rename('{secret}', '{folder}/made')", "os"),
    "mkdir": solve("os.mkdir('{folder}/made')", "os"),
    "symlink": solve("os.symlink('{secret}', '{folder}/made')", "os"),
    "read through a symlink": "import os\n"
    + SOLVE
    + "os.symlink('{secret}', '{folder}/made')\n    return open('{folder}/made').read()",
    "read through a symlink that is there": solve("return open('{folder}/link').read()"),
    "write through a symlink that is there": solve("open('{folder}/link', 'w').write('x')"),
    "hijacked import": solve("return hijack.SECRET", "hijack"),
    "hijacked import by path": "import sys\nsys.path.insert(0, '{folder}')\nimport hijack\n"
    + SOLVE
    + "return hijack.SECRET",
    "hard link": solve("os.link('{secret}', '{folder}/made')", "os"),
    "named pipe": solve("os.mkfifo('{folder}/made')", "os"),
    "change mode": solve("os.chmod('{secret}', 0)", "os"),
    "read": solve("return open('{secret}').read()"),
    "posix read": solve("return posix.read(posix.open('{secret}', 0), 99).decode()", "posix"),
    "FileIO": solve("return _io.FileIO('{secret}').read().decode()", "_io"),
    "loader": "import sys\n"
    + SOLVE
    + "m = sys.modules['_frozen_importlib_external']\n"
    + "    return m.SourceFileLoader('x', '{secret}').get_data('{secret}').decode()",
    "import from a folder": "import sys\n"
    + SOLVE
    + "m = sys.modules['_frozen_importlib_external']\n    return m.SourceFileLoader('x', '{secret}').load_module()",
    "list /": "import os\n" + SOLVE + "return ' '.join(os.listdir('{folder}'))",
    "fill the disk": solve("f = open('{folder}/made', 'wb')\nwhile True: f.write(bytes(10**6))"),
    "fill the disk by libc": LIBC
    + SOLVE
    + "f = libc.open(b'{folder}/made', 65, 384)\n    while libc.write(f, bytes(10**6), 10**6) > 0: pass\n    return f",
    "memory as a file": solve("f = os.memfd_create('x')\nwhile True: os.write(f, bytes(10**6))", "os"),
    "use up descriptors": solve("while True: os.dup(3)", "os"),
    "use up descriptors by pipes": solve("while True: os.pipe()", "os"),
    "use up descriptors by libc": solve("while libc.dup(3) >= 0: pass\nreturn 5", LIBC),
}
SECRETS = {
    "environment": solve("return str(os.environ) + str(dict(os.environb))", "os"),
    "own environment": solve("return open('/proc/self/environ').read()"),
    "parent's environment": solve("return open(f'/proc/{os.getppid()}/environ').read()", "os"),
    "a stranger's environment": solve("return open('/proc/{pid}/environ').read()"),
    "host's memory": solve("return str(open('/proc/{host}/mem', 'rb').read(9))"),
    "host's memory by libc": solve("return libc.process_vm_readv({host}, 0, 0, 0, 0, 0) + 5", LIBC),
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
    "__main__": solve("return str(vars(sys.modules['__main__']))[:3000]", "sys"),
    "arguments": solve("return str(sys.argv) + str(sys.orig_argv)", "sys"),
    "parent's memory": solve("return str(open(f'/proc/{os.getppid()}/mem', 'rb').read(9))", "os"),
    "parent's memory by libc": solve("return libc.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0) + 5", "os", LIBC),
    "frames of a traceback": SOLVE
    + "try: 1 / 0\n    except ZeroDivisionError as e: f, seen = e.__traceback__.tb_frame, ''\n"
    + "    while f: seen += str(f.f_locals) + str(f.f_globals)[:400]; f = f.f_back\n    return seen[:3000]",
    "open descriptors": "import os\n"
    + SOLVE
    + "seen = b''\n    for fd in range(256):\n        try: seen += os.read(fd, 99)\n        except OSError: pass\n"
    + "    return seen.decode()",
    "generator frame": solve("g = (x for x in [1])\nreturn str(g.gi_frame.f_back) + str(g.gi_frame.f_globals)[:3000]"),
    "subclasses": solve("return [c for c in object.__subclasses__() if c.__name__ == 'Popen'][0]"),
    "format leak": solve("return '{0.__globals__}'.format(solve)[:3000]"),
}
ADDRESS = "b'\\x02\\x00' + ({port}).to_bytes(2, 'big') + b'\\x7f\\x00\\x00\\x01' + bytes(8)"
"""`struct sockaddr_in` of {port} on 127.0.0.1."""

NETWORK = {
    "tcp by libc": solve("s = libc.socket(2, 1, 0)\na = ADDRESS\nreturn libc.connect(s, a, 16)", LIBC),
    "udp by libc": solve("s = libc.socket(2, 2, 0)\na = ADDRESS\nreturn libc.sendto(s, b'secret', 6, 0, a, 16)", LIBC),
    "name service": solve("return socket.gethostbyname('secret.example.org')", "socket"),
    "name service by libc": solve("return libc.gethostbyname(b'secret.example.org') or 5", LIBC),
    "socket pair by libc": solve("return libc.socketpair(1, 1, 0, bytes(8))", LIBC),
    "abstract socket": LIBC
    + SOLVE
    + "s = libc.socket(1, 1, 0)\n    return libc.connect(s, b'\\x01\\x00\\x00graft-{port}', 3 + len('graft-{port}'))",
    "socket module": solve("socket.create_connection(('127.0.0.1', {port}))", "socket"),
    "_socket module": solve("_socket.socket().connect(('127.0.0.1', {port}))", "_socket"),
    "urllib": solve("return urllib.request.urlopen('http://127.0.0.1:{port}').read()", "urllib.request"),
}
VERDICT = {
    "exit 0": solve("sys.exit(0)", "sys"),
    "exit at once": solve("os._exit(0)", "os"),
    "forged output": solve("os.write(3, b'[\"ok\", true, null]')\nos._exit(0)", "os"),
    "forged print": "import sys\n"
    + SOLVE
    + "for s in (sys.stdout, sys.__stdout__, sys.__stderr__): print('[\"ok\", 7254.5, null]', file=s, flush=True)\n"
    + "    return 1",
    "forged print by libc": solve("libc.puts(b'[\"ok\", 7254.5, null]')\nlibc.fflush(0)\nreturn 1", LIBC),
    "forged status": solve("os.write(3, b'[\"right\", 1, null]')\nos._exit(0)", "os"),
    "forged infinity": solve("os.write(3, b'[\"ok\", Infinity, null]')\nos._exit(0)", "os"),
    "forged digits": solve("os.write(3, b'[\"ok\", ' + b'9' * 9999 + b', null]')\nos._exit(0)", "os"),
    "forged depth": solve("os.write(3, b'[' * 60000)\nos._exit(0)", "os"),
    "forged error": solve("os.write(3, b'[\"error\", null, \"' + b'x' * 999 + b'\\\\ud800\"]')\nos._exit(0)", "os"),
    "forged everywhere": "import os\n"
    + SOLVE
    + "for fd in range(64):\n        try: os.write(fd, b'{}' * 999)\n        except OSError: pass\n    return 1",
    "flood": solve("while True: os.write(3, bytes(1 << 16))", "os"),
    "equal to everything": SOLVE
    + "class F(float):\n        __eq__ = lambda s, o: True\n        __sub__ = lambda s, o: 0.0\n    return F()",
    "patched abs": "import builtins\nbuiltins.abs = lambda x: 0\n" + SOLVE + "return 1",
    "patched type": "import builtins\nbuiltins.type = lambda x: int\n" + SOLVE + "return [1]",
    "patched json": "import json\njson.dumps = lambda x: '[\"ok\", [7], null]'\n" + SOLVE + "return 1",
    "nan": solve("return float('nan')"),
    "pickle": solve("class P:\n    def __reduce__(self): return (eval, ('1',))\nreturn P()"),
    "poisoned modules": "import sys\nfor name in list(sys.modules): sys.modules[name] = None\n" + SOLVE + "return 1",
    "spoiled operators": solve("sys.modules['tasks.programs.operators.builtin']._QUANTITY = None\nreturn 1", "sys"),
    "late interrupt": solve("atexit.register(os._exit, 0)\nraise KeyboardInterrupt", "atexit, os"),
    "pickle of a stranger": SOLVE
    + "class P(float):\n        def __reduce__(self): return (print, ('1',))\n    return P(7254.5)",
    "interrupt": solve("raise KeyboardInterrupt"),
    "abort": solve("os.abort()", "os"),
    "fault": solve("libc.strlen(1)", LIBC),
    "error of errors": "class E(BaseException):\n    def __str__(self): raise self\n" + SOLVE + "raise E",
    "exception group": solve("raise ExceptionGroup('x', [ValueError(i) for i in range(999)])"),
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
    "huge constant": solve("return 'x' * (10 ** 10)"),
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
    # Python 3.13 crashes where frames have used up the memory, which a busy machine reaches in one run of two.
    "timeout|killed|error": ["memory: recursion without a limit"],
    "error|timeout": ["memory: native recursion"],  # Python 3.12 and later limit it all the same
    "error|ok": [  # they show addresses: found out, unless the second run is out of time
        "secrets: frames",
        "secrets: frames of a traceback",
        "secrets: __main__",
        "secrets: generator frame",
        "secrets: format leak",
        "source: sum",  # Python 3.12 and later compile it
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
        "processes: clock of a stranger",
        "processes: futex of a stranger",
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
