"""Servers on the loopback address: a free port, and whether a server answers."""

import socket
import urllib.error
import urllib.request

HOST = "127.0.0.1"


def free_port(wanted: int = 0) -> int:
    """`wanted`, or another port if that one is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does
        try:
            probe.bind((HOST, wanted))
        except OSError:
            probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    """True if the server answers a request with status 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False
