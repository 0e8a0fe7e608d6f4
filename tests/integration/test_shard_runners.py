"""Whoever computes the shards, the bytes are the same; an error of one is the run's, and a lost worker is one line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import ValidationError

from flows.prefect_runs.shard_runners import ShardRunner
from flows.process.exit_codes import exit_code
from flows.stages.dvc_yaml import MODULES
from tasks.artifacts import remove_leftovers
from tasks.core.loopback import free_port
from tasks.layout import Layout
from tasks.model.cuda.cards import VISIBLE
from tasks.params.machine import RunnerParams
from tests.support.params_file import override
from tests.support.processes import is_alive, is_loopback, listeners
from tests.support.real_project import make
from tests.support.shard_stages import REPOSITORY, params_of
from tests.support.tiers import nightly_but_first

STAGES = ["search", "collect", "reward", "select"]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project before its first search; its validation problems are two shards."""
    root = make(tmp_path_factory.mktemp("bare") / "project")
    override(root / "params.yaml", ["influence.n=2", "shard_size=1"])
    return root


@pytest.fixture(scope="module")
def here(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project after its stages, which this process computed."""
    root = Path(shutil.copytree(bare, tmp_path_factory.mktemp("here") / "project", symlinks=True))
    for stage in STAGES:
        import_module(MODULES[stage]).run(Layout(root), params_of(root, stage), 1)
    return root


@pytest.fixture
def root(bare: Path, tmp_path: Path) -> Path:
    """The project to work on."""
    return Path(shutil.copytree(bare, tmp_path / "project", symlinks=True))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Dask cluster that was there before: a scheduler, and a worker on a machine of its own."""
    address = tmp_path_factory.mktemp("cluster") / "address.json"
    common = [f"--scheduler-file={address}", "--host=127.0.0.1", "--no-dashboard"]
    commands = [["dask_scheduler", "--port=0"], ["dask_worker", "--nworkers=1", "--nthreads=1", "--death-timeout=60"]]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *more, *common], cwd=REPOSITORY, stderr=subprocess.DEVNULL
        )
        for name, *more in commands
    ]
    try:
        while not address.exists():
            assert started[0].poll() is None
            time.sleep(0.05)
        yield str(json.loads(address.read_text())["address"])
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


@pytest.fixture
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a Ray cluster that has two cards by its own account."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else a token that Ray has left in the home is asked for
    port = free_port()
    options = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2", "--num-gpus=2", "--block"]
    program = [sys.executable, "-m", "ray.scripts.scripts", "start", "--include-dashboard=false", *options]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert any("Ray runtime started" in line for line in process.stdout)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def command(root: Path, kind: str, *stages: str, address: str = "") -> list[str]:
    return [sys.executable, "-m", "tests.support.shard_stages", str(root), kind, address, *stages]


def started(root: Path, kind: str, *stages: str, address: str = "") -> "subprocess.CompletedProcess[str]":
    asked = command(root, kind, *stages, address=address)
    return subprocess.run(asked, cwd=REPOSITORY, capture_output=True, text=True, timeout=540)


def files(root: Path) -> dict[str, bytes]:
    """All that the stages wrote."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in (root / "run").rglob("*") if p.is_file()}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_the_bytes_are_the_same_whoever_computes_and_an_error_is_its_own_line(
    kind: str, root: Path, here: Path, request: pytest.FixtureRequest
) -> None:
    """Dask in a cluster that is there already, Ray in one of its own beside it; processes: the test below."""
    there = request.getfixturevalue("cluster" if kind == "dask" else "ray_cluster")
    address = there if kind == "dask" else ""
    check(started(root, kind, *STAGES, "fail", address=address), root, here)


def check(ended: "subprocess.CompletedProcess[str]", root: Path, here: Path) -> None:
    processes, was_it_here, is_heard, is_private = ended.stdout.split()[-4:]
    assert is_heard == "True", "Ray has a handler of its own for SIGTERM"
    assert is_private == "True", "what Ray sends can run code"
    assert was_it_here == "False", "somebody else computed"
    assert 1 <= int(processes) <= 2
    assert files(root) == files(here)
    assert ended.stderr.strip().splitlines()[-1] == "graft: number 8: is not wanted; leave it out"
    assert ended.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("how", nightly_but_first([signal.SIGKILL, signal.SIGINT]))
def test_whatever_ends_a_fan_out_leaves_no_process_and_it_goes_on_with_the_same_bytes(
    how: signal.Signals, root: Path, here: Path
) -> None:
    """`kill -9` ends one process; Ctrl-C reaches all of a terminal, reaches one handler and none prints."""
    code, told = ended_in_mid_search(root, how)
    assert (code, told) == ((130, "") if how == signal.SIGINT else (-how, told))
    remove_leftovers(Layout(root).workflows(1))  # as a run does that begins with the stage
    ended = started(root, "processes", *STAGES, "fail")
    assert "search@1: resumes after" in ended.stderr
    check(ended, root, here)


def ended_in_mid_search(root: Path, how: signal.Signals) -> tuple[int, str]:
    """Exit code and stderr, when all of its processes are gone."""
    begun = subprocess.Popen(
        command(root, "processes", "search"), cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    before = journaled(root)
    while journaled(root) == before:
        assert begun.poll() is None, begun.communicate()
        time.sleep(0.01)
    family = psutil.Process(begun.pid).children(recursive=True)
    assert len(family) > 2
    assert all(is_loopback(address) for address, _ in listeners(begun.pid))
    (os.killpg if how == signal.SIGINT else os.kill)(begun.pid, how)
    told = begun.communicate(timeout=60)[1]  # whoever is left over would hold the pipe
    deadline = time.monotonic() + 60
    while any(is_alive(process.pid) for process in family):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not Layout(root).workflows(1).exists()
    return begun.returncode, told


def journaled(root: Path) -> int:
    """Bytes of the search's journals."""
    return sum(file.stat().st_size for file in Layout(root).journals("search", 1).glob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", nightly_but_first(["processes", "dask", "ray"]))
def test_a_worker_that_is_killed_is_one_line(kind: str, root: Path) -> None:
    ended = started(root, kind, "die")
    assert ended.returncode == 2
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"graft: runner: a worker of {kind} was lost (")
    assert last.endswith("run it again, with fewer machine.runner.workers or a smaller shard_size")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_each_worker_has_a_card_of_its_own(kind: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "2,3")
    assert started(root, kind, "card").stdout.splitlines()[-1] == "['2', '3']"


@pytest.mark.nightly
def test_ray_assigns_the_cards_that_it_has(root: Path, ray_cluster: str) -> None:
    assert started(root, "ray", "card", address=ray_cluster).stdout.splitlines()[-1] == "['0', '1']"


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_what_is_not_installed_is_named_with_the_extra_that_installs_it(
    kind: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, f"prefect_{kind}", None)  # Python's own way to have it not there
    assert (
        exit_code(
            lambda: ShardRunner(RunnerParams(kind=kind, workers=None, address=None), "auto") and None, debug=False
        )
        == 2
    )
    assert capsys.readouterr().err == (
        f"graft: machine.runner.kind: {kind} is not installed; "
        f"install it: pip install -c constraints.txt -e '.[{kind}]'\n"
    )
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(each.startswith(f"prefect-{kind}") for each in extras[kind])


@pytest.mark.parametrize("kind", ["sequential", "processes"])
def test_only_a_cluster_has_an_address(kind: Any) -> None:
    with pytest.raises(ValidationError, match=f"address is tcp://a:1, but kind is {kind}: set kind to dask or ray"):
        RunnerParams(kind=kind, workers=None, address="tcp://a:1")
