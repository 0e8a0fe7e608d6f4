"""What a person changed in the stages of `dvc.yaml` is named; stages of one's own are allowed."""

from pathlib import Path

import pytest

from flows.project.new_project import FILES, new_project
from flows.stages.dvc_yaml import parse
from flows.stages.edits import differences, edited_stages
from tasks.errors import GraftError
from tests.support.edited_stages import allowed, edits, write_stages
from tests.support.stage_params import REPOSITORY

STAGES = parse(REPOSITORY / "dvc.yaml")["stages"]


def test_the_stages_that_a_project_begins_with_are_those_of_the_repository() -> None:
    """They are compared to find edits; after a change of the stages: cp dvc.yaml flows/project/files/stages.yaml."""
    assert (FILES / "stages.yaml").read_bytes() == (REPOSITORY / "dvc.yaml").read_bytes()
    assert not (FILES / "stages.yaml").is_symlink()


@pytest.mark.parametrize("stage", ["select", "update", "promote"])
def test_every_edit_of_a_stage_is_named_in_one_line(stage: str) -> None:
    """Of all stages: benchmarks.faults."""
    tried = 0
    for words, stages in edits(STAGES):
        if words.startswith(f"{stage}: "):
            (line,) = differences({"stages": STAGES}, {"stages": stages})
            assert line.startswith(f"dvc.yaml: {stage}: "), words
            assert "\n" not in line
            tried += 1
    assert tried > 50


def test_what_is_not_graft_s_may_be_there(tmp_path: Path) -> None:
    for words, stages in [("as it is", STAGES), *allowed(STAGES)]:
        write_stages(tmp_path / "dvc.yaml", stages)
        assert edited_stages(tmp_path) == [], words
    new_project(tmp_path / "project")
    assert edited_stages(tmp_path / "project") == []


@pytest.mark.parametrize(
    "text", ["stages:\n", "stages: 3\n", "a: 1\n", "stages: {update: 3}\n", "stages: {update: {do: x}}\n"]
)
def test_no_stages_are_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text(text)
    with pytest.raises(GraftError, match=r"^dvc\.yaml: its stages cannot be read \(.*; git checkout dvc\.yaml, or"):
        edited_stages(tmp_path)
