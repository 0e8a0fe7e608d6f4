"""An update that is killed, whenever it may be, ends with the bytes of one that was left alone."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from flows.stages.sources import write as write_sources
from tasks.artifacts import digest_path, write_jsonl
from tasks.layout import Layout
from tasks.model import training_checkpoint as checkpoint
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import write_rewarded
from tests.support.process_group import SERVER
from tests.support.selections import selected
from tests.support.tiers import nightly_but_first
from tests.support.workspace import environment, make_workspace

MOMENTS = {"grpo": 10, "ppo": 6}
PARAMS = ["update.epochs=6", "update.prompts_per_step=2", "update.negative_weight=1.0", "update.beta=0.05"]
PARAMS += ["update.learning_rate=0.01", "update.truncated=learn"]
PPO = ["algorithm=ppo", "search.simulations=8"]
ADDRESS = "update@1"


@pytest.fixture
def algorithm(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(
    algorithm: str,
    tmp_path: Path,
    save_tiny: Callable[..., None],
    make_trajectory: Callable[..., RewardedTrajectory],
) -> Path:
    """A project in which the update of round 1 is what comes next."""
    root = make_workspace(tmp_path / "project", [*PARAMS, *(PPO if algorithm == "ppo" else [])])
    write_sources(root)
    layout = Layout(root)
    save_tiny(layout.policy(0), fresh=True)
    trajectories = [make_trajectory(f"p{number}", [1.0, 0.0, 0.5]) for number in range(8)]
    write_rewarded(layout.trajectories(1), trajectories)
    write_jsonl(layout.selection(1), [line for t in trajectories for line in selected(t, [1.0, -1.0, 0.5])])
    return root


def stage(root: str, rest: float) -> None:
    """What `python -m flows.stages.run update@1` does, in a process whose libraries are loaded already."""
    import torch

    from flows.stages.run import main

    checkpoint.WRITE_INTERVAL = rest
    os.chdir(root)
    torch.set_num_threads(1)
    code = main([ADDRESS])
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def started(root: Path, rest: float = 0.0) -> Iterator[SERVER.Process]:
    process = SERVER.Process(target=stage, args=(str(root), rest))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def finish(root: Path, rest: float = 0.0) -> float:
    """Let the stage come to its end; returns the seconds that it took."""
    begun = time.monotonic()
    with started(root, rest) as process:
        process.join()
        assert process.exitcode == 0
    return time.monotonic() - begun


def written(layout: Layout) -> list[str]:
    """Digests of all that the stage has written."""
    return [digest_path(p) for p in (layout.policy(1) / "adapter", *outputs(layout))]


def outputs(layout: Layout) -> list[Path]:
    return [layout.policy(1), layout.steps(1), layout.metrics("update", 1)]


def forget(layout: Layout) -> None:
    """As DVC does before it starts a stage."""
    subprocess.run(["rm", "-rf", *outputs(layout)], check=True)


def left(layout: Layout) -> tuple[int, bool]:
    """How many steps a killed update has kept, and whether it was killed while it wrote a checkpoint."""
    folder = layout.journals("update", 1)
    torn = list(folder.glob(".*"))
    kept = [path for path in folder.glob("*.pt") if not path.name.startswith(".")]
    state = checkpoint.Checkpoint(kept[0]).load() if kept else None
    return (len(state["rows"]) if state else 0), bool(torn)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", nightly_but_first(MOMENTS), indirect=True)
def test_killed_at_any_moment_it_ends_with_the_same_bytes(root: Path, algorithm: str) -> None:
    layout = Layout(root)
    command = [sys.executable, "-m", "flows.stages.run", ADDRESS]
    told = subprocess.run(
        command,
        cwd=root,
        env=environment(root) | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "goes on" not in told.stderr
    undisturbed = written(layout)
    assert not layout.journals("update", 1).exists()
    forget(layout)
    finish(root)
    forget(layout)
    seconds = finish(root)  # with the libraries loaded
    assert written(layout) == undisturbed  # however often it writes checkpoints

    rng, kept, torn = random.Random(0), set(), 0
    for moment in range(MOMENTS[algorithm]):
        forget(layout)
        with started(root) as process:
            if moment % 4:
                time.sleep(rng.uniform(0, seconds))
            else:  # as soon as it writes a checkpoint, if it comes to that
                wait_for_writing(layout, process, rng.randint(1, 20))
            process.kill()
            process.join()
        steps, inside = left(layout)
        kept.add(steps)
        torn += inside
        finish(root)
        assert written(layout) == undisturbed
        assert not layout.journals("update", 1).exists()
        assert not layout.live_steps(ADDRESS).exists()
    assert len(kept) > MOMENTS[algorithm] // 4  # it was killed here and there
    assert torn or algorithm == "ppo"  # and at least once in the middle of writing
    assert layout.value_head(1).exists() == (algorithm == "ppo")


def wait_for_writing(layout: Layout, process: SERVER.Process, times: int) -> None:
    """Until the so-many-th checkpoint is being written, or the process has ended."""
    names: set[str] = set()
    while process.is_alive():
        with suppress(FileNotFoundError):  # an update that ends removes the folder
            names |= {path.name for path in layout.journals("update", 1).glob(".*")}
        if len(names) >= times:
            return
