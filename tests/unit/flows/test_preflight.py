"""Params before a run: what they name must be there."""

from pathlib import Path

import pytest
import torch

from flows.preflight import write_params
from flows.stages.run import run
from flows.stages.sources import write as write_sources
from tasks.errors import GraftError
from tests.support.workspace import make_workspace

ROOT = Path(__file__).parents[3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    for name in ("examples/problems.jsonl", "base/config.json"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("{}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("assignment", "named"),
    [("policy.base=./bass", "./bass"), ("problems.path=none.jsonl", "none.jsonl"), ("problems.path=base", "base")],
)
def test_a_missing_file_is_named_and_params_are_unchanged(root: Path, assignment: str, named: str) -> None:
    before = (root / "params.yaml").read_text()
    with pytest.raises(GraftError, match=named):
        write_params(root, ["seed=3", assignment], print)
    assert (root / "params.yaml").read_text() == before


def test_a_card_that_is_not_there_is_named_and_params_are_unchanged(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    before = (root / "params.yaml").read_text()
    with pytest.raises(GraftError, match=r"^machine\.device: cuda, but torch finds no card"):
        write_params(root, ["machine.device=cuda"], print)
    assert (root / "params.yaml").read_text() == before


@pytest.mark.slow
def test_a_stage_alone_refuses_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    project = make_workspace(tmp_path / "project", ["machine.device=cuda"])
    write_sources(project)
    with pytest.raises(GraftError, match=r"^machine\.device: cuda"):
        run(project, "problems")
