"""A process that imports the third-party modules of `graft` once, and forks for each command that a test runs.

Starting Python and importing DVC, pydantic and rich takes longer than most commands of a tiny project. The forked
process is a real one: it has its own pid, session, signals, environment and working directory, and imports `flows` and
`tasks` from the project that it runs in.
"""

import atexit
import importlib
import json
import os
import runpy
import selectors
import shutil
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp

THIRD_PARTY: tuple[str, ...] = ("typer", "rich.console", "rich.table", "pydantic", "ruamel.yaml", "numpy", "jinja2")
THIRD_PARTY += ("dvc.repo", "dvc.repo.reproduce", "dvc.repo.status", "dvc.stage.cache", "dvc_data.index", "httpx")
THIRD_PARTY += ("psutil",)
"""Not Prefect or MLflow, which read their settings when they are imported."""


def run(
    module: str, arguments: tuple[str, ...], root: Path, environment: dict[str, str], timeout: float
) -> "subprocess.CompletedProcess[str]":
    """`python -m module arguments` in the folder `root`, with its output as text. Raises TimeoutExpired."""
    with TemporaryFile() as out, TemporaryFile() as error, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_address())
        job = {"module": module, "arguments": arguments, "root": str(root), "environment": environment}
        socket.send_fds(connection, [json.dumps(job).encode() + b"\n"], [out.fileno(), error.fileno()])
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(timeout)
        with connection.makefile() as answers:
            pid = int(answers.readline())
            try:
                code = int(answers.readline())
            except TimeoutError:
                os.killpg(pid, 9)
                raise subprocess.TimeoutExpired(arguments, timeout) from None
        texts = [(stream.seek(0), stream.read().decode())[1] for stream in (out, error)]
    return subprocess.CompletedProcess([module, *arguments], code, *texts)


@cache
def _address() -> str:
    """The socket of this process's server, which is started by the first call and ends with this process."""
    folder = mkdtemp(prefix="graft-fork-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = f"{folder}/socket"
    command = [sys.executable, "-m", "tests.support.fork_server", address]
    server = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return address


def serve(address: str) -> None:
    """Fork for each connection, and answer it with the pid and the exit code. Returns in the forked process alone."""
    for module in THIRD_PARTY:
        importlib.import_module(module)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as waiting:
        listener.bind(address)
        listener.listen()
        waiting.register(listener, selectors.EVENT_READ)
        waiting.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is sys.stdin:  # the test process has ended
                    os._exit(0)
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    text, descriptors = _receive(connection)
                    pid = os.fork()
                    if pid == 0:
                        connection.close()
                        return _become(json.loads(text), descriptors)
                    for descriptor in descriptors:
                        os.close(descriptor)
                    connection.sendall(f"{pid}\n".encode())
                    waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
                else:
                    pid, connection = key.data
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    waiting.unregister(key.fileobj)
                    os.close(key.fd)
                    connection.sendall(f"{code}\n".encode())
                    connection.close()


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    text, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 2)
    while more := connection.recv(1 << 20):
        text += more
    return text, descriptors


def _become(job: dict[str, object], descriptors: list[int]) -> None:
    """Be what `python -m module` is, up to the call of the module."""
    os.setsid()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(job["environment"])  # type: ignore[call-overload]
    os.chdir(str(job["root"]))
    sys.path[0] = str(job["root"])
    sys.argv = [str(job["module"]), *job["arguments"]]  # type: ignore[misc]
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "flows", "tasks", "benchmarks")]:
        del sys.modules[name]
    global _job
    _job = str(job["module"])


_job = ""

if __name__ == "__main__":
    serve(sys.argv[1])
    runpy.run_module(_job, run_name="__main__", alter_sys=True)
