"""`transformers serve` in a process of its own, on loopback."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def transformers_server(model: Path) -> Iterator[str]:
    """The URL of a server for the model in a folder; its log is next to the folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(model)]
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    log = model.with_name("serve.log")
    with log.open("w") as stream:
        process = subprocess.Popen([*command, *options], stdout=stream, stderr=stream)
    deadline = time.monotonic() + 120
    try:
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
