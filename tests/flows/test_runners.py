"""Whoever computes the shards, the bytes are the same; an error of one is the run's, and a lost worker is one line."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from benchmarks.streaming import CODES, Code, Codes, make
from tasks.artifacts import write_json
from tasks.layout import Layout
from tasks.params import Runner
from tasks.records import Lineage
from tests.flows.fanned_stages import REPOSITORY, params_of

CLUSTERS = ["threads", "processes", "dask", "ray"]


def started(root: Path, kind: str, *stages: str, address: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.flows.fanned_stages", str(root), kind, address, *stages]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=540)


def files(root: Path) -> dict[str, bytes]:
    """What the stages wrote."""
    layout = Layout(root)
    paths = [layout.trajectories(1), layout.rewarded(1), layout.metrics("collect", 1), layout.metrics("reward", 1)]
    return {path.name: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A round after its search: 60 train problems."""
    layout = Layout(tmp_path_factory.mktemp("found"))
    codes = [Code(text=text, tokens=[5, 6, place]) for place, text in enumerate(CODES)]
    write_json(layout.root / "codes.json", Codes(codes=codes))
    lineage = Lineage(version="v", parent=None, base="scratch", round=0, holds=["adapter"])
    write_json(layout.policy(0) / "lineage.json", lineage)
    make(layout, 60)
    return layout.root


@pytest.fixture(scope="module")
def here(found: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files where this process computes all in one shard."""
    from tasks.rewards.task import run as reward
    from tasks.trajectories.task import run as collect

    root = tmp_path_factory.mktemp("here") / "project"
    shutil.copytree(found, root)
    for stage, run in (("collect", collect), ("reward", reward)):
        run(Layout(root), params_of(stage).model_copy(update={"shard": 2048}), 1)
    return files(root)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLUSTERS)
def test_the_bytes_are_the_same_whoever_computes_and_an_error_is_its_own_line(
    kind: str, found: Path, here: dict[str, bytes], tmp_path: Path
) -> None:
    root = tmp_path / "project"
    shutil.copytree(found, root)
    ended = started(root, kind, "collect", "reward", "fail")
    processes, was_it_here = ended.stdout.split()[-2:]
    assert was_it_here == str(kind == "threads"), "somebody else computed"
    assert 1 <= int(processes) <= 2
    assert files(root) == here
    assert ended.stderr.strip().splitlines()[-1] == "graft: number 40: is not wanted; leave it out"
    assert ended.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["processes", "dask", "ray"])
def test_a_worker_that_is_killed_is_one_line(kind: str, tmp_path: Path) -> None:
    ended = started(tmp_path, kind, "die")
    assert ended.returncode == 2
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"graft: runner: a worker of {kind} was lost (")
    assert last.endswith("run it again, with fewer runner.workers or a smaller shard")


@pytest.mark.parametrize("kind", ["here", "threads", "processes"])
def test_only_a_cluster_has_an_address(kind: Any) -> None:
    with pytest.raises(ValidationError, match=f"address is tcp://a:1, but kind is {kind}: set kind to dask or ray"):
        Runner(kind=kind, workers=None, address="tcp://a:1")
