"""All attacks of attack_list.py: none succeeds, with all layers or with one of them, as root or as another user.

The last test runs some of them without the sandbox, where they do succeed.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tasks.programs.answer_check import is_right
from tasks.programs.contract import HEADER
from tasks.programs.sandbox.plain_programs import is_plain
from tasks.programs.sandbox.sandbox import LAYERS, SANDBOX_DIED, Program, Sandbox
from tasks.records.programs import Result
from tests.attacks.attack_list import ADDRESS, ATTACKS, EXPECTED, PLAIN, QUESTION, SECRET, right_statuses
from tests.support.processes import in_sessions

FOLDER = ["hijack.py", "link", "secret.py", "textwrap.py"]
"""Files in the folder before and after."""


@dataclass
class Surroundings:
    """The targets of the attacks, with a check what has been reached."""

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

    def armed(self) -> dict[str, str]:
        """Name → code of all attacks."""
        return {name: self.arm(code) for name, code in ATTACKS.items()}

    def harm(self) -> list[str]:
        """The targets that have been reached: none if the sandbox holds."""
        found = []
        secret = self.folder / "secret.py"
        if sorted(os.listdir(self.folder)) != FOLDER:
            found.append("a file in the folder")
        elif secret.stat().st_atime_ns:  # always 0 on a file system without access times
            found.append("the secret was read")
        elif secret.read_text() != f"'{SECRET}'" or not os.access(secret, os.R_OK):
            found.append("the file")
        if secret.exists():
            never_read(secret)
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
        (folder / "link").symlink_to(folder / "secret.py")
        for module in ("hijack.py", "textwrap.py"):  # in the host's current folder, where a careless import looks
            (folder / module).write_text(f"open({str(folder / 'made')!r}, 'w')\nSECRET = {SECRET!r}\n")
        never_read(folder / "secret.py")
        monkeypatch.chdir(folder)
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(type=socket.SOCK_DGRAM)
        udp.bind(tcp.getsockname())
        listeners = [tcp, udp]
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0graft-{tcp.getsockname()[1]}")
        abstract.listen()
        listeners.append(abstract)
        for listener in listeners:
            listener.setblocking(False)
        bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        yield Surroundings(folder, bystander, listeners)
        bystander.kill()
        bystander.communicate()
        for listener in listeners:
            listener.close()


def strays() -> set[int]:
    """Forks of a zygote that have lost it."""
    alive = psutil.process_iter(["ppid", "cmdline", "status"])
    return {
        process.pid
        for process in alive
        if process.info["ppid"] == 1
        and process.info["status"] != psutil.STATUS_ZOMBIE
        and any("sandbox.zygote" in part for part in process.info["cmdline"] or ())
    }


@contextmanager
def sandboxes(layers: tuple[str, ...] = LAYERS) -> Iterator[tuple[Sandbox, Sandbox]]:
    """For attacks that end by timeout, and for all others, which a pause of a busy machine must not end."""
    with (
        Sandbox(0.2, 256, allow_weak=False, workers=2, layers=layers) as hasty,
        Sandbox(5.0, 256, allow_weak=False, workers=2, layers=layers) as patient,
    ):
        yield hasty, patient


def run_all(pair: tuple[Sandbox, Sandbox], attacks: dict[str, str]) -> dict[str, Result]:
    """Name → result of each attack, in the first of `pair` where it may end by the clock."""
    found = {}
    for sandbox, by_the_clock in zip(pair, (True, False), strict=True):
        names = [name for name in attacks if ("timeout" in right_statuses(name)) == by_the_clock]
        results = sandbox.run([Program(attacks[name], (QUESTION,)) for name in names])
        found.update({name: result for name, (result,) in zip(names, results, strict=True)})
    return found


def never_read(file: Path) -> None:
    """Reset the access time, which a reader changes."""
    os.utime(file, ns=(0, file.stat().st_mtime_ns))


@pytest.mark.parametrize(
    "layers", [LAYERS, pytest.param(("seccomp", "memory"), marks=pytest.mark.slow)], ids=["all layers", "seccomp alone"]
)
def test_nothing_is_reached(surroundings: Surroundings, layers: tuple[str, ...]) -> None:
    before = strays()
    with sandboxes(layers) as pair:
        zygotes = [pid for sandbox in pair for pid in sandbox.pids]
        results = run_all(pair, surroundings.armed())
        assert surroundings.harm() == []
        assert set(zygotes) <= {pid for sandbox in pair for pid in sandbox.pids}  # not one of them died
        zygotes = [pid for sandbox in pair for pid in sandbox.pids]
        for sandbox in pair:
            sane = sandbox.run(
                [Program(HEADER + "    return n[0] + 1\n", ("41",)), Program("def solve(p): return 5", ("",))]
            )
            assert [r[0].value for r in sane] == [42, 5]
    assert strays() == before
    assert in_sessions(zygotes) == []
    for name, result in results.items():
        assert not is_right(result, EXPECTED), name
        assert SECRET not in f"{result.value} {result.error}", name
        assert result.error != SANDBOX_DIED, name
        assert len(result.error or "") <= 200
        assert not re.search(r"0x[0-9a-f]{6}|/(?:tmp|root|home|usr|proc)/", result.error or ""), name
        assert result.value is None or type(result.value) in (int, float, str)
    wrong = {name: r for name, r in results.items() if r.status not in right_statuses(name)}
    assert wrong == {}


@pytest.mark.slow
def test_landlock_holds_files_network_and_processes(surroundings: Surroundings) -> None:
    """As another user if this one is root; the process limit of that user prevents forks.

    Landlock does not cover the mode of a user's own files.
    """
    attacks = surroundings.armed()
    if os.geteuid() != 0:
        del attacks["files: change mode"]
    before = strays()
    with sandboxes(("user", "landlock", "memory")) as pair:
        results = run_all(pair, attacks)
        zygotes = [pid for sandbox in pair for pid in sandbox.pids]
    assert surroundings.harm() == []
    assert strays() == before
    assert in_sessions(zygotes) == []
    assert not any(SECRET in f"{r.value} {r.error}" or is_right(r, EXPECTED) for r in results.values())


@pytest.mark.slow
def test_the_same_for_an_unprivileged_user() -> None:
    """This file as user nobody, without this test and seccomp alone."""
    if os.geteuid() != 0:
        pytest.skip("not root: the other tests have run as an unprivileged user")
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv (util-linux) to become another user with")
    pytest_alone = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-k",
        "not unprivileged and not alone",
    ]
    root = Path(__file__).parents[2]
    for become_nobody in NOBODY:
        if subprocess.run([*become_nobody, sys.executable, "-c", REACHED], capture_output=True).returncode == 0:
            break
    ended = subprocess.run([*become_nobody, *pytest_alone, __file__], cwd=root, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    assert "skipped" not in ended.stdout


_SETPRIV = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
_MAY_READ = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
NOBODY = ([*_SETPRIV, "--inh-caps=-all"], [*_SETPRIV, *_MAY_READ])
"""Commands before a command. Where the interpreter lies in root's own folder, nobody gets a right to read all files."""

REACHED = "import os, sys; sys.exit(not os.access(sys.executable, os.X_OK))"

SIBLINGS = ("Tom has 2 and 6.", "Ann has 4 and 5.", "Eve has 3 and 10.")
ANSWERS = (12.0, 20.0, 30.0)


@pytest.mark.parametrize(
    "code",
    [
        "calls = -1\ndef solve(problem):\n    global calls\n    calls += 1\n    return [12, 20, 30][calls]",
        "def solve(problem, calls=[]):\n    calls.append(1)\n    return [12, 20, 30][len(calls) - 1]",
        "import math\ndef solve(problem):\n    math.calls = getattr(math, 'calls', -1) + 1\n"
        "    return [12, 20, 30][math.calls]",
        "import tasks.programs.operators.builtin as o\ndef solve(problem):\n    o.MAX_BITS += 1\n"
        "    return [12, 20, 30][o.MAX_BITS - 4097]",
        "import random\nrandom.seed(0)\ndef solve(problem): return [12, 20, 30][random.seed(random.random()) or 0]",
        "def solve(problem): return 12",
    ],
    ids=["global counter", "default argument", "in a module", "in an operator", "reseeded", "constant"],
)
def test_an_answer_for_each_sibling_is_not_to_be_had_by_counting(code: str) -> None:
    with Sandbox(1.0, 256, allow_weak=False, workers=1) as sandbox:
        for siblings, answers in ((SIBLINGS, ANSWERS), (SIBLINGS[::-1], ANSWERS[::-1])):
            (results,) = sandbox.run([Program(code, siblings)])
            assert {(r.status, r.value) for r in results} == {("ok", 12)}
            assert sum(map(is_right, results, answers)) == 1


def test_chance_is_the_same_for_every_sibling_and_in_every_run() -> None:
    guess = "import random\ndef solve(problem): return random.choice([12, 20, 30]) + random.random()"
    with Sandbox(1.0, 256, allow_weak=False, workers=2) as sandbox:
        runs = [sandbox.run([Program(guess, SIBLINGS)])[0] for _ in range(2)]
    assert len({result.value for results in runs for result in results}) == 1
    assert runs[0][0].status == "ok"


def test_bombs_for_the_warm_tier_end_alike_in_a_child_of_their_own() -> None:
    plain = {f"plain: {name}": code for name, code in PLAIN.items() if is_plain(code)}
    assert len(plain) >= 14
    bulky = {name: code + "\n#" + " not plain" * 500 for name, code in plain.items()}
    assert not any(map(is_plain, bulky.values()))
    with sandboxes() as pair:
        warm, alone = run_all(pair, plain), run_all(pair, bulky)
    for name, one in warm.items():
        assert one == alone[name] or {one.status, alone[name].status} <= right_statuses(name) != {"ok"}, name


UNHELD = "import ctypes, json, sys\ncode = json.load(sys.stdin)\nexec(code)\nprint(solve(''))"


def test_the_attacks_are_real(surroundings: Surroundings) -> None:
    """In a plain Python they reach what they reach for: otherwise the tests above would prove nothing."""

    def attack(name: str) -> str:
        code = json.dumps(surroundings.arm(ATTACKS[name]))
        return subprocess.run([sys.executable, "-c", UNHELD], input=code, capture_output=True, text=True).stdout

    for name in ("read", "posix read", "FileIO", "loader", "read through a symlink that is there"):
        assert SECRET in attack(f"files: {name}"), name
    assert attack("verdict: forged print") == '["ok", 7254.5, null]\n' * 2 + "1\n"
    for name in ("environment", "own environment", "a stranger's environment", "libc environment"):
        assert SECRET in attack(f"secrets: {name}"), name
    assert "secret.py" in attack("files: list /")
    if not os.statvfs(surroundings.folder).f_flag & os.ST_NOATIME:
        assert surroundings.harm() == ["the secret was read"]
    never_read(surroundings.folder / "secret.py")
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
