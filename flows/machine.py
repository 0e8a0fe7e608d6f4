"""Checks of the machine for `graft doctor`: what it lacks, what does not work without it, and what happens instead."""

import fcntl
import math
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

import psutil
from rich.filesize import decimal

from flows.preflight import check_temporary_folder
from tasks.core.loopback import HOST
from tasks.core.out_of_memory import check_address_space
from tasks.environments.code_completions import CodeCompletions
from tasks.environments.lookup import environment_in
from tasks.errors import GraftError
from tasks.params.params import Params
from tasks.programs.sandbox.sandbox import probe_tier

GOOD_DISK, LEAST_DISK = 3_000_000_000, 44_000_000
"""Bytes that a run wants, and that a round of 40 problems writes, the tracker's and Prefect's included."""

GOOD_MEMORY, LEAST_MEMORY = 1.3e9, 1e9
"""Limits of a control group with which such a run came to its end (it took 1.22 GB), and was killed in bootstrap."""

SHARED, SECOND_CARD = Path("/dev/shm"), Path("/dev/nvidia1")
GOOD_SHARED = 1e9
"""Bytes of shared memory that NCCL's user guide gives a container (Troubleshooting, Sharing Data)."""

CONTAINER = "in a container, --shm-size=1g"


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    `remedy`: what to do, or what happens instead; None if the check passed. `lost`: what does not work.
    `fatal`: a run would fail.
    """

    thing: str
    found: str
    remedy: str | None = None
    lost: str = ""
    fatal: bool = True

    @property
    def state(self) -> str:
        """ok, warning or wrong."""
        return "ok" if self.remedy is None else "wrong" if self.fatal else "warning"

    @classmethod
    def of_error(cls, thing: str, error: GraftError) -> "Finding":
        """An error of a run, whose line ends with a remedy."""
        found, separator, remedy = str(error).rpartition("; ")
        return cls(thing, found if separator else remedy, remedy if separator else "", "a run")


def examine_machine(root: Path, params: Params) -> list[Finding]:
    """Check what a run with these params needs of the machine, but for its card."""
    return [
        check_sandbox(root, params),
        _memory(),
        check_disk(root),
        _passes("temporary files", gettempdir(), check_temporary_folder),
        check_shared_memory(params),
        check_loopback(),
    ]


def check_sandbox(root: Path, params: Params) -> Finding:
    """The tier of the sandbox, which a run needs if its policy writes programs."""
    try:
        tier, reason = probe_tier()
    except GraftError as error:
        return Finding.of_error("sandbox", error)
    if tier == "full":
        return Finding("sandbox", tier)
    found = f"{tier}: {reason}"
    if tier == "partial":
        return Finding("sandbox", found, "programs run behind the other barrier", "one of two barriers", fatal=False)
    if params.sandbox.allow_weak:
        remedy = "programs run, as sandbox.allow_weak says: they can read files and use the network"
        return Finding("sandbox", found, remedy, "both barriers", fatal=False)
    environment = environment_in(root, params)
    runs_programs = environment.asks_siblings or isinstance(environment, CodeCompletions)
    remedy = "use a Linux kernel of 5.13 or later with landlock and seccomp, or accept it: -S sandbox.allow_weak=true"
    if not runs_programs:
        remedy = f"environment {params.environment.name} runs none"
    return Finding("sandbox", found, remedy, "programs", runs_programs)


def _memory() -> Finding:
    try:
        return check_memory(psutil.virtual_memory().available + psutil.swap_memory().free, memory_limit())
    except OSError:  # psutil reads /proc, and a run notes with it when its processes began
        return Finding("memory", "unknown: /proc is not mounted", "mount -t proc proc /proc", "a run")


def check_memory(free: float, limit: float) -> Finding:
    """Bytes of memory that are free, and that the control groups of this process allow."""
    found = f"{decimal(int(free))} free" + (f", {decimal(int(limit))} allowed" if limit < math.inf else "")
    remedy = "free some, raise the container's limit, or lower shard_size and update.micro_batch_tokens"
    if (least := min(free, limit)) < GOOD_MEMORY:
        return Finding("memory", found, remedy, "a run: the kernel may end it", least < LEAST_MEMORY)
    return _passes("memory", found, check_address_space)


def memory_limit(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float:
    """The lowest memory limit of this process's control groups, of version 1 or 2, in bytes; inf without any.

    (Linux, Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.)
    """
    limits = [math.inf]
    for line in groups.read_text().splitlines() if groups.is_file() else ():
        _, controllers, group = line.split(":", 2)
        if controllers in ("", "memory"):
            top, name = (root / controllers, "memory.limit_in_bytes" if controllers else "memory.max")
            folder = top / group.lstrip("/")
            files = [place / name for place in (folder, *folder.parents) if place.is_relative_to(top)]
            limits += [float(file.read_text().replace("max", "inf")) for file in files if file.is_file()]
    return limit if (limit := min(limits)) < 1 << 60 else math.inf  # version 1 has a number for none


def check_disk(root: Path) -> Finding:
    """Whether the project's folder has room, can be written, and has the kernel locks that a run takes."""
    try:
        with TemporaryFile(dir=root) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        remedy = "make it writable, or move the project to a disk of this machine that has file locks"
        return Finding("disk", f"{root}: {error.strerror}", remedy, "a run")
    free = shutil.disk_usage(root).free
    if free >= GOOD_DISK:
        return Finding("disk", f"{decimal(free)} free")
    remedy = f"free some space: a run wants {decimal(GOOD_DISK)}; dvc gc --workspace drops old results"
    return Finding("disk", f"{decimal(free)} free", remedy, "a run that writes more than that", free < LEAST_DISK)


def check_shared_memory(params: Params) -> Finding:
    """Semaphores, which pools of processes need, and room for NCCL and Ray."""
    runner, update, search = params.machine.runner, params.update, params.search
    try:
        get_context("fork").Lock()
    except OSError as error:
        local = runner.kind == "processes" or (runner.kind == "dask" and not runner.address)
        searched = min(search.problems or params.problems.train, params.problems.train)
        sampled = params.influence.n if params.influence.selection != "none" else 0
        remedy = f"runner sequential and ray do without; else mount {SHARED} for writing"
        fatal = local and max(searched, sampled) > params.shard_size  # a stage of one shard has no pool
        return Finding("shared memory", f"{SHARED}: {error.strerror}", remedy, "runners processes and dask", fatal)
    free = shutil.disk_usage(SHARED).free if SHARED.is_dir() else 0
    found = f"{decimal(free)} free"
    if free < GOOD_SHARED and runner.kind == "ray" and not runner.address:
        return Finding("shared memory", found, f"Ray uses /tmp, if it wants more; {CONTAINER}", "Ray's", fatal=False)
    if free < GOOD_SHARED and update.processes > 1 and SECOND_CARD.exists():
        return Finding("shared memory", found, CONTAINER, "NCCL between cards that have no other way", fatal=False)
    return Finding("shared memory", found)


def check_loopback() -> Finding:
    """Whether a server on the loopback address can be reached: Prefect's own, and the processes of an update."""
    try:
        with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname(), timeout=5):
            return Finding("loopback", HOST)
    except OSError as error:
        lost, remedy = "Prefect's server, update.processes", "ip link set lo up; dvc repro does without Prefect"
        fatal = not os.environ.get("PREFECT_API_URL")
        return Finding("loopback", f"{HOST}: {error.strerror or error}", remedy, lost, fatal)


def _passes(thing: str, found: str, check: Callable[[], None]) -> Finding:
    """The result of a check that a run begins with, which raises GraftError."""
    try:
        check()
    except GraftError as error:
        return Finding.of_error(thing, error)
    return Finding(thing, found)
