"""`graft doctor` on a machine that lacks something: what does not work and what happens instead."""

import math
import resource
from functools import partial
from pathlib import Path

import pytest

from flows import machine
from flows.machine import (
    Finding,
    check_disk,
    check_loopback,
    check_memory,
    check_sandbox,
    check_shared_memory,
    examine_machine,
    memory_limit,
)
from tasks.params.file import overridden
from tasks.params.params import Params
from tests.support.lacks import lacking, with_mount, without_calls, without_network
from tests.support.small_disk import Ballast, mounted

ROOT = Path(__file__).parents[3]


def params_of(*assignments: str) -> Params:
    path = ROOT / "params.yaml"
    return overridden(path, path.read_text(), assignments)[1]


SANDBOXES = {
    "partial": (["landlock"], [], "warning", "the other barrier"),
    "weak": (["landlock", "seccomp"], [], "wrong", "-S sandbox.allow_weak=true"),
    "accepted": (["landlock", "seccomp"], ["sandbox.allow_weak=true"], "warning", "read files and use the network"),
    "not needed": (["landlock", "seccomp"], ["environment=answer"], "warning", "environment answer runs none"),
    "for tests": (
        ["landlock", "seccomp"],
        ["environment=recipes.code:Code"],
        "wrong",
        "allow_weak",
    ),
}


@pytest.mark.parametrize("case", SANDBOXES)
def test_without_landlock_or_seccomp(case: str) -> None:
    calls, assignments, state, remedy = SANDBOXES[case]
    found = lacking(without_calls(*calls), lambda: check_sandbox(ROOT, params_of(*assignments)))
    assert found.state == state
    assert remedy in str(found.remedy)
    assert all(f"no {call}: Operation not permitted" in found.result for call in calls)


def test_a_disk_that_is_small_or_read_only(tmp_path: Path) -> None:
    for options, state, found in (
        ("size=100m", "warning", "104.9 MB free"),
        ("size=20m", "wrong", "21.0 MB free"),
        ("ro", "wrong", f"{tmp_path}: Read-only file system"),
    ):
        result = lacking(with_mount(tmp_path, options), lambda: check_disk(tmp_path))
        assert result.state == state, options
        assert result.result == found


def test_a_disk_without_file_locks(tmp_path: Path) -> None:
    found = lacking(without_calls("flock"), lambda: check_disk(tmp_path))
    assert (found.state, found.lost) == ("wrong", "a run")
    assert "file locks" in str(found.remedy)


def of(thing: str, params: Params) -> Finding:
    (finding,) = (finding for finding in examine_machine(ROOT, params) if finding.thing == thing)
    return finding


def test_a_full_folder_of_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as disk:
        Ballast(disk).fill(leave=8 << 10)
        monkeypatch.setenv("TMPDIR", str(disk))
        found = of("temporary files", params_of())
    line = f"TMPDIR: {disk}: No space left on device"
    assert found == Finding("temporary files", line, "free some space there, or name another", "a run")


SEMAPHORES = {
    "unused": ([], "warning"),
    "processes": (["machine.runner.kind=processes", "shard_size=100"], "wrong"),
    "dask there": (["machine.runner.kind=dask", "machine.runner.address=tcp://a:1", "shard_size=100"], "warning"),
    "validation": (["machine.runner.kind=processes", "shard_size=100", "search.problems=100"], "wrong"),
    "a sample": (
        ["machine.runner.kind=processes", "shard_size=100", "search.problems=100", "influence.selection=none"],
        "warning",
    ),
}


@pytest.mark.parametrize("case", SEMAPHORES)
def test_shared_memory_that_is_read_only(case: str) -> None:
    assignments, state = SEMAPHORES[case]
    found = lacking(with_mount(machine.SHARED, "ro"), lambda: check_shared_memory(params_of(*assignments)))
    assert (found.state, found.result) == (state, "/dev/shm: Read-only file system")


def test_shared_memory_that_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container by default; pools of processes need only its semaphores."""
    monkeypatch.setattr(machine, "SECOND_CARD", tmp_path)
    for assignments, lost in (
        (["machine.runner.kind=processes", "shard_size=100"], ""),
        (["machine.runner.kind=ray"], "Ray's"),
        (["update.processes=2"], "NCCL between cards that have no other way"),
    ):
        check = partial(check_shared_memory, params_of(*assignments))
        found = lacking(with_mount(machine.SHARED, "size=64m"), check)
        assert (found.lost, found.state) == (lost, "warning" if lost else "ok")
        assert found.result == "67.1 MB free"
    monkeypatch.setattr(machine, "SECOND_CARD", tmp_path / "none")
    assert lacking(with_mount(machine.SHARED, "size=64m"), check).state == "ok"


def test_no_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert check_loopback().state == "ok"
    found = lacking(without_network, check_loopback)
    assert (found.state, found.result) == ("wrong", "127.0.0.1: Network is unreachable")
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example:4200/api")
    assert lacking(without_network, check_loopback).state == "warning"


def test_no_proc() -> None:
    found = lacking(with_mount(Path("/proc"), "ro"), lambda: of("memory", params_of()))
    assert (found.state, found.remedy) == ("wrong", "mount -t proc proc /proc")


def test_too_few_addresses() -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (900 << 20, resource.RLIM_INFINITY))

    found = lacking(limit, lambda: check_memory(8e9, math.inf))
    assert found.state == "wrong"
    assert "ulimit -v" in str(found.remedy)


@pytest.mark.parametrize(
    ("free", "limit", "state", "found"),
    [
        (8e9, math.inf, "ok", "8.0 GB free"),
        (8e9, 4e9, "ok", "8.0 GB free, 4.0 GB allowed"),
        (8e9, 1.2e9, "warning", "8.0 GB free, 1.2 GB allowed"),
        (8e9, 256e6, "wrong", "8.0 GB free, 256.0 MB allowed"),
        (1.1e9, math.inf, "warning", "1.1 GB free"),
        (0.9e9, math.inf, "wrong", "900.0 MB free"),
    ],
)
def test_memory(free: float, limit: float, state: str, found: str) -> None:
    finding = check_memory(free, limit)
    assert (finding.state, finding.result) == (state, found)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


GROUPS: dict[str, tuple[str, dict[str, str], float]] = {
    "version 2": ("0::/a/b\n", {"a/memory.max": "1073741824\n", "a/b/memory.max": "max\n"}, 1 << 30),
    "version 1": (
        "4:cpu,cpuacct:/x\n3:memory:/docker/c0de\n0::/\n",
        {"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/docker/c0de/memory.limit_in_bytes": "4096\n"},
        4096,
    ),
    "version 1 in a container": ("3:memory:/docker/c0de\n", {"memory/memory.limit_in_bytes": "8192\n"}, 8192),
    "no limit": ("0::/a\n", {"a/memory.max": "max\n"}, math.inf),
}


@pytest.mark.parametrize("case", GROUPS)
def test_the_lowest_limit_of_a_control_group_counts(case: str, tmp_path: Path) -> None:
    groups, files, limit = GROUPS[case]
    write(tmp_path / "cgroup", groups)
    for name, text in files.items():
        write(tmp_path / "sys" / name, text)
    assert memory_limit(tmp_path / "cgroup", tmp_path / "sys") == limit
