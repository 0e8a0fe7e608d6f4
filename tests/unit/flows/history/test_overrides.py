"""Params that differ from the committed ones."""

import shutil
import subprocess
from pathlib import Path

from flows.history.changes import overrides
from tasks.params.file import load_params, override
from tests.support.stage_params import REPOSITORY


def git(root: Path, *arguments: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *author, *arguments], cwd=root, check=True, capture_output=True)


def test_only_what_differs_from_the_commit_is_listed(tmp_path: Path) -> None:
    project = tmp_path / "a project inside a repository"
    project.mkdir()
    path = Path(shutil.copy(REPOSITORY / "params.yaml", project))
    override(path, ["seed=3"])
    assert overrides(project, load_params(path)) == ""  # there is no commit to compare with
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "params")
    assert overrides(project, load_params(path)) == ""
    override(path, ["seed=4", "rounds=2", "machine.tracking.uri=sqlite:///mlflow.db"])
    assert overrides(project, load_params(path)) == "rounds.last=2 seed=4"
