"""Programs that try to hang, flood, escape, spy or cheat. None gets anywhere, with all layers or with one of them.

`{secret}`, `{folder}`, `{pid}` and `{port}` become a file with a secret, a folder that everyone may write to, a
process of this user and a TCP port that listens. The last test runs some of them unheld, where they do succeed.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.records import Result
from tasks.workflows.contract import HEADER
from tasks.workflows.judge import is_right
from tasks.workflows.sandbox import LAYERS, Program, Sandbox

SECRET = "k8Zq-secret-77231"
EXPECTED = 7254.5
"""The answer of the question that is asked. It is in this process alone."""
QUESTION = "What is it that nobody inside can know?"

LIBC = "import sys\nlibc = sys.modules['ctypes'].CDLL(None)\n"
SOLVE = "def solve(problem):\n    "

TIME = {
    "loop": SOLVE + "while True: pass",
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
    "threads": "import _thread, time\n"
    + SOLVE
    + "for _ in range(2000): _thread.start_new_thread(time.sleep, (99,))\n    return 1",
    "os.system": "import os\n" + SOLVE + "return os.system('echo x > {folder}/made')",
    "posix.system": "import posix\n" + SOLVE + "return posix.system('echo x > {folder}/made')",
    "libc system": LIBC + SOLVE + "return libc.system(b'echo x > {folder}/made')",
    "execve": "import os\n" + SOLVE + "os.execve('/bin/sh', ['sh', '-c', 'echo x > {folder}/made'], {})",
    "spawn": "import posix\n"
    + SOLVE
    + "return posix.posix_spawn('/bin/sh', ['sh', '-c', 'echo x > {folder}/made'], {})",
    "kill a stranger": "import os\n" + SOLVE + "os.kill({pid}, 9)",
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
    "rename": "import os\n" + SOLVE + "os.rename('{secret}', '{folder}/made')",
    "mkdir": "import os\n" + SOLVE + "os.mkdir('{folder}/made')",
    "symlink": "import os\n" + SOLVE + "os.symlink('{secret}', '{folder}/made')",
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
    "use up descriptors": "import os\n" + SOLVE + "while True: os.dup(3)",
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
    + "sys.modules['tasks.workflows.operators']._QUANTITY = None\n    return 1",
    "interrupt": SOLVE + "raise KeyboardInterrupt",
    "abort": "import os\n" + SOLVE + "os.abort()",
    "fault": LIBC + SOLVE + "libc.strlen(1)",
    "error of errors": "class E(BaseException):\n    def __str__(self): raise self\n" + SOLVE + "raise E",
    "exception group": SOLVE + "raise ExceptionGroup('x', [ValueError(i) for i in range(999)])",
}
SOURCE = {
    "parentheses": "(" * 5000,
    "minus": "-" * 19_000 + "1",
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
KINDS = {
    "time": TIME,
    "memory": MEMORY,
    "processes": PROCESSES,
    "files": FILES,
    "secrets": SECRETS,
    "network": NETWORK,
    "verdict": VERDICT,
    "source": SOURCE,
}
ATTACKS = {f"{kind}: {name}": code for kind, programs in KINDS.items() for name, code in programs.items()}


@dataclass
class Surroundings:
    """What an attack could reach, and what of it has been reached."""

    folder: Path
    bystander: subprocess.Popen[bytes]
    listeners: list[socket.socket]

    def arm(self, code: str) -> str:
        port = self.listeners[0].getsockname()[1]
        reach = {"secret": self.folder / "secret.py", "folder": self.folder, "pid": self.bystander.pid, "port": port}
        code = code.replace("ADDRESS", ADDRESS)
        for name, value in {**reach, "host": os.getpid()}.items():
            code = code.replace("{" + name + "}", str(value))
        return code

    def harm(self) -> list[str]:
        """What has been touched: nothing, if the sandbox holds."""
        found = []
        if sorted(os.listdir(self.folder)) != ["secret.py"]:
            found.append("a file in the folder")
        elif (self.folder / "secret.py").read_text() != f"'{SECRET}'" or not os.access(self.folder / "secret.py", 4):
            found.append("the file")
        if self.bystander.poll() is not None:
            found.append("the bystander")
        for listener in self.listeners:
            try:
                listener.recv(9) if listener.type == socket.SOCK_DGRAM else listener.accept()[0].close()
                found.append(f"the network: {listener}")
            except BlockingIOError:
                pass
        return found


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    monkeypatch.setenv("GRAFT_SECRET", SECRET)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folder is closed to others
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "secret.py").write_text(f"'{SECRET}'")
        (folder / "secret.py").chmod(0o666)
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(type=socket.SOCK_DGRAM)
        udp.bind(tcp.getsockname())
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0graft-{tcp.getsockname()[1]}")
        abstract.listen()
        listeners = [tcp, udp, abstract]
        for listener in listeners:
            listener.setblocking(False)
        bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        yield Surroundings(folder, bystander, listeners)
        bystander.kill()
        bystander.communicate()
        for listener in listeners:
            listener.close()


def processes() -> dict[int, tuple[int, str]]:
    """Process id → (parent, command line) of all that live on this machine."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found[int(folder.name)] = (int(parent), command)
    return found


def strays() -> set[int]:
    """Forks of a zygote that have lost it."""
    return {pid for pid, (parent, command) in processes().items() if "zygote.py" in command and parent == 1}


def run_all(sandbox: Sandbox, surroundings: Surroundings) -> dict[str, Result]:
    programs = [Program(surroundings.arm(code), (QUESTION,)) for code in ATTACKS.values()]
    return {name: results[0] for name, results in zip(ATTACKS, sandbox.run(programs), strict=True)}


@pytest.mark.parametrize("layers", [LAYERS, ("seccomp",)], ids=["all layers", "seccomp alone"])
def test_nothing_is_reached(surroundings: Surroundings, layers: tuple[str, ...]) -> None:
    before = strays()
    with Sandbox(0.3, 256, allow_weak=False, workers=2, layers=layers) as sandbox:
        zygotes = sandbox.pids
        results = run_all(sandbox, surroundings)
        assert surroundings.harm() == []
        assert set(zygotes) <= set(sandbox.pids)  # not one of them died
        sane = sandbox.run(
            [Program(HEADER + "    return n[0] + 1\n", ("41",)), Program("def solve(p): return 5", ("",))]
        )
        assert [r[0].value for r in sane] == [42, 5]
    assert strays() == before
    for name, result in results.items():
        assert not is_right(result, EXPECTED), name
        assert SECRET not in f"{result.value} {result.error}", name
        assert len(result.error or "") <= 200
        assert not re.search(r"0x[0-9a-f]{6}|/(?:tmp|root|home|usr|proc)/", result.error or ""), name
        if result.status == "ok":
            assert type(result.value) in (int, float, str)
    statuses = {name: result.status for name, result in results.items()}
    loops = [f"time: {name}" for name in TIME.keys() - {"close all and loop"}]
    assert [name for name in loops if statuses[name] != "timeout"] == []
    for kind in ("files", "network"):
        assert {s for name, s in statuses.items() if name.startswith(kind)} <= {"error", "ok"}
    assert {n for n, s in statuses.items() if n.startswith("files") and s == "ok"} <= {"files: libc write"}
    for name in ("bytearray", "list", "format"):
        assert statuses[f"memory: {name}"] == "memory", name
    for name in ("growing dict", "recursion without a limit"):  # a busy machine fills the memory too slowly
        assert statuses[f"memory: {name}"] in ("memory", "timeout"), name
    assert {statuses[f"source: {name}"] for name in SOURCE} == {"error", "memory"}
    assert statuses["source: huge constant"] == "memory"


def test_landlock_as_another_user_holds_files_network_and_processes(surroundings: Surroundings) -> None:
    before = strays()
    with Sandbox(0.3, 256, allow_weak=False, workers=2, layers=("user", "landlock")) as sandbox:
        results = run_all(sandbox, surroundings)
    assert surroundings.harm() == []
    assert strays() == before
    assert not any(SECRET in f"{r.value} {r.error}" or is_right(r, EXPECTED) for r in results.values())


UNHELD = "import ctypes, json, sys\ncode = json.load(sys.stdin)\nexec(code)\nprint(solve(''))"


def test_the_attacks_are_real(surroundings: Surroundings) -> None:
    """In a plain Python they reach what they reach for: otherwise the tests above would prove nothing."""

    def attack(name: str) -> str:
        code = json.dumps(surroundings.arm(ATTACKS[name]))
        return subprocess.run([sys.executable, "-c", UNHELD], input=code, capture_output=True, text=True).stdout

    for name in ("read", "posix read", "FileIO", "loader"):
        assert SECRET in attack(f"files: {name}"), name
    for name in ("environment", "own environment", "a stranger's environment", "libc environment"):
        assert SECRET in attack(f"secrets: {name}"), name
    assert "secret.py" in attack("files: list /")
    for name in ("write", "posix write", "libc write", "mkdir", "symlink", "hard link", "named pipe"):
        attack(f"files: {name}")
        assert surroundings.harm() == ["a file in the folder"], name
        made = surroundings.folder / "made"
        made.rmdir() if name == "mkdir" else made.unlink()
    for name in ("os.system", "posix.system", "libc system", "execve", "spawn"):
        attack(f"processes: {name}")
        while not (surroundings.folder / "made").exists():  # a spawned shell may still be on its way
            pass
        (surroundings.folder / "made").unlink()
    for name in ("tcp by libc", "udp by libc", "abstract socket"):
        attack(f"network: {name}")
        assert len(surroundings.harm()) == 1, name
    attack("processes: kill a stranger by libc")
    assert surroundings.bystander.wait() == -signal.SIGKILL
