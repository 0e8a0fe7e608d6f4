"""The stage `update` in several processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from flows.stages.sources import write as write_sources
from tasks.artifacts import digest_path, write_jsonl
from tasks.core.metrics_files import LiveRows
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.cuda.cards import check_count
from tasks.params.params import Params
from tasks.trajectories import RewardedTrajectory
from tasks.update.task import run
from tests.support.groups import changed, write_rewarded
from tests.support.processes import is_loopback, listeners
from tests.support.selections import selected
from tests.support.stage_params import stage_params
from tests.support.tiers import nightly_but_first
from tests.support.workspace import environment, make_workspace

CHANGED = {"epochs": 10, "prompts_per_step": 2, "negative_weight": 1.0, "beta": 0.05, "entropy": 0.01}
CHANGED |= {"learning_rate": 0.001, "truncated": "learn", "micro_batch_tokens": 128}
CHANGED |= {"loss": "own_loss:clipped", "importance": "token"}
ADVANTAGES = (1.0, -1.0, 0.5)
MakeTrajectory = Callable[..., RewardedTrajectory]

pytestmark = pytest.mark.slow


def params(**update: Any) -> Params:
    return stage_params("update", update=CHANGED | update)


def put(layout: Layout, trajectories: list[RewardedTrajectory]) -> None:
    """What the stages before the update would have written."""
    (layout.root / "own_loss.py").write_text("from tasks.objective.surrogates import clipped\n")  # as dapo
    write_rewarded(layout.trajectories(1), trajectories)
    write_jsonl(layout.selection(1), [line for t in trajectories for line in selected(t, ADVANTAGES)])


def written(layout: Layout) -> list[str]:
    """Digests of all that the stage has written."""
    return [digest_path(p) for p in (layout.policy(1), layout.steps(1), layout.metrics("update", 1))]


def weights(layout: Layout, name: str, round: int = 1) -> torch.Tensor:
    return torch.cat([w.flatten() for _, w in sorted(load_file(layout.policy(round) / name).items())])


def numbers(layout: Layout) -> dict[str, float]:
    found: dict[str, float] = json.loads(layout.metrics("update", 1).read_text())
    return found


def started(root: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "flows.stages.run", "update@1"]
    return subprocess.Popen(command, cwd=root, env=environment(root) | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE)


@pytest.mark.parametrize("sharded", nightly_but_first([False, True]))
def test_two_processes_do_the_work_of_one_and_survive_being_killed(
    sharded: bool, tmp_path: Path, save_tiny: Callable[..., None], make_trajectory: MakeTrajectory
) -> None:
    shared = {"processes": 2, "sharded": str(sharded).lower()}
    assignments = [f"update.{name}={value}" for name, value in (CHANGED | shared).items()]
    root = make_workspace(tmp_path / "project", assignments)
    layout = Layout(root)
    save_tiny(layout.policy(0), fresh=True)
    put(layout, [make_trajectory(f"p{number}", [1.0, 0.0, 0.5]) for number in range(8)])
    write_sources(root)

    run(layout, params(), 1)
    alone, alone_numbers = weights(layout, "adapter/adapter_model.safetensors"), numbers(layout)
    run(layout, params(processes=2, sharded=sharded), 1)
    undisturbed = written(layout)
    assert alone_numbers == pytest.approx(numbers(layout), rel=1e-4, abs=1e-6)
    torch.testing.assert_close(weights(layout, "adapter/adapter_model.safetensors"), alone, atol=1e-4, rtol=1e-4)

    subprocess.run(["rm", "-rf", layout.policy(1), layout.steps(1), layout.metrics("update", 1)], check=True)
    with started(root) as process:
        heard: set[tuple[str, int]] = set()
        while not list(layout.journals("update", 1).glob("*.pt")):
            assert process.poll() is None
            heard |= listeners(process.pid)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert heard, "gloo listens somewhere"
    assert all(is_loopback(address) for address, _ in heard), heard
    assert len(workers) == 3  # two of its own, and the tracker of multiprocessing
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    assert not layout.policy(1).exists()
    assert LiveRows(layout.live_steps("update@1")).read(0), "the steps are recorded while the processes run"
    with started(root) as process:
        _, told = process.communicate()
    assert process.returncode == 0
    (line,) = told.decode().splitlines()
    assert line.startswith("update: goes on after ")
    assert written(layout) == undisturbed
    assert not layout.journals("update", 1).exists()


def test_what_goes_wrong_in_a_process_is_one_line_here(
    tmp_path: Path, save_tiny: Callable[..., None], make_trajectory: MakeTrajectory, capfd: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(tmp_path)
    save_tiny(layout.policy(0))
    tokens = [[40 + number, 41, 1] for number in range(3)]
    wild = make_trajectory("wild", [1.0, 0.0, 0.5], tokens=tokens)
    put(layout, [changed(wild, logprobs=[[-1000.0] * 3] * 3)])
    with pytest.raises(GraftError) as caught:
        run(layout, params(processes=2), 1)
    line = str(caught.value)
    assert line.startswith(
        "update step 1 of 10: the loss of wild completion 1 is not finite; lower update.learning_rate"
    )
    assert "\n" not in line
    assert "in accumulate" in caught.value.__notes__[0]
    assert capfd.readouterr().err == ""
    assert not layout.policy(1).exists()


@pytest.fixture
def long_update(
    request: pytest.FixtureRequest, tmp_path: Path, save_tiny: Callable[..., None], make_trajectory: MakeTrajectory
) -> Path:
    """A project whose next stage is an update of many steps in two processes; indirectly with more params."""
    more = getattr(request, "param", [])
    root = make_workspace(tmp_path / "project", ["update.processes=2", "update.epochs=64", *more])
    write_sources(root)
    save_tiny(Layout(root).policy(0))
    put(Layout(root), [make_trajectory(f"p{number}", [1.0, 0.0, 0.5]) for number in range(8)])
    return root


@pytest.mark.parametrize("long_update", nightly_but_first([[], ["update.sharded=true"]]), indirect=True)
def test_a_process_that_is_ended_from_outside_ends_the_update(long_update: Path) -> None:
    live = LiveRows(Layout(long_update).live_steps("update@1"))
    with started(long_update) as process:
        while not live.read(0):
            assert process.poll() is None
            time.sleep(0.05)
        workers = psutil.Process(process.pid).children(recursive=True)
        os.kill(workers[-1].pid, signal.SIGKILL)
        _, told = process.communicate(timeout=10)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    assert process.returncode == 2
    (line,) = told.decode().splitlines()
    assert line.startswith("graft: update.processes: one of the 2 processes was ended from outside")


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    check_count(1)
    with pytest.raises(
        GraftError, match=r"update\.processes: 2 processes need a GPU each, and here are 1; set it to 1"
    ):
        check_count(2)


@pytest.mark.parametrize("number", nightly_but_first([signal.SIGINT, signal.SIGTERM]))
def test_ctrl_c_ends_all_processes(number: int, long_update: Path) -> None:
    with started(long_update) as process:
        while len(workers := psutil.Process(process.pid).children(recursive=True)) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        process.communicate()
    assert process.returncode == 128 + number
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
