"""A throw-away Postgres cluster on loopback: real, with passwords, gone after the test.

Debian's package starts a cluster of its own, which is left alone.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwnam

from tasks.core.loopback import free_port

DEBIAN = Path("/usr/lib/postgresql")  # keeps each version's programs off PATH


def _programs() -> Path | None:
    """The folder of the newest version's programs; None where Postgres is not installed."""
    versions = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parents[1].name))
    found = str(versions[-1]) if versions else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


PROGRAMS = _programs()
ABSENT = "no Postgres: initdb was not found (make postgres)"


@dataclass(frozen=True)
class Postgres:
    """A running cluster with the role `graft`, which may make databases."""

    folder: Path
    port: int
    password: str

    def make(self, name: str) -> str:
        """Make a database that `graft` owns; gives its address without the scheme."""
        self.sql(f'create database "{name}" owner graft')
        return f"graft:{self.password}@127.0.0.1:{self.port}/{name}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What a statement gives, run by the cluster's own superuser."""
        assert PROGRAMS is not None
        where = ["-h", str(self.folder), "-p", str(self.port), "-U", "super", "-d", database]
        command = [PROGRAMS / "psql", *where, "-v", "ON_ERROR_STOP=1", "-qAt", "-c", statement]
        done = subprocess.run(command, **_nobody(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextmanager
def cluster(password: str = "no-secret") -> Iterator[Postgres]:
    """Postgres in a folder of its own; it refuses to run as root, so root runs it as the user `postgres`."""
    assert PROGRAMS is not None
    with tempfile.TemporaryDirectory(prefix="postgres-", dir="/tmp") as name:  # a socket's path must be short
        folder, port = Path(name), free_port()
        data = folder / "data"
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", getpwnam("postgres").pw_gid)
        make = [PROGRAMS / "initdb", "-D", data, "-U", "super", "--auth-local=trust", "--auth-host=scram-sha-256"]
        subprocess.run([*make, "--no-sync", "-E", "UTF8", "--no-locale"], **_nobody(), check=True, capture_output=True)
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "fsync": "off",  # nobody wants it back after a power cut
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([PROGRAMS / "postgres", "-D", data, *options], **_nobody(), stderr=log)
        try:
            postgres = Postgres(folder, port, password)
            _wait(process, folder, port)
            postgres.sql(f"create role graft login createdb password '{password}'")
            yield postgres
        finally:
            process.send_signal(signal.SIGINT)  # fast: it ends its sessions instead of waiting for them
            process.wait(60)


def _wait(process: "subprocess.Popen[bytes]", folder: Path, port: int) -> None:
    assert PROGRAMS is not None
    ready = [PROGRAMS / "pg_isready", "-q", "-h", str(folder), "-p", str(port)]
    while subprocess.run(ready).returncode:
        assert process.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)


def _nobody() -> dict[str, object]:
    """For subprocess: another user than root, in a folder that this one may enter."""
    return {"user": "postgres", "group": "postgres", "extra_groups": [], "cwd": "/"} if os.geteuid() == 0 else {}
