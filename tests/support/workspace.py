"""Copy of this project for complete runs that touch neither its params.yaml nor its results."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from tests.support.params_file import override

PROJECT = Path(__file__).parents[2]
RESULTS = {"dvc.lock"}
"""Excluded from a copy: results."""

Output = int | IO[str]


def make_workspace(root: Path, assignments: Iterable[str]) -> Path:
    """The project as it stands in the working tree, in the new folder `root`, as a git repository of one commit.

    `assignments` (`key=value`) are written into its `params.yaml` first. Raises GraftError where one is wrong.
    """
    listed = _git(PROJECT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in sorted(set(listed) - RESULTS):
        if (PROJECT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, root / name)
    override(root / "params.yaml", assignments)
    _git(root, "init", "-q")
    _git(root, "add", "-A")
    _git(root, "-c", "user.name=graft", "-c", "user.email=graft@localhost", "commit", "-qm", "workspace")
    return _with_environment(root)


def clone_workspace(root: Path, workspace: Path) -> Path:
    """A workspace at the same commit with nothing computed."""
    _git(workspace, "clone", "-q", ".", str(root))
    return _with_environment(root)


def graft(
    root: Path, *arguments: str, stdout: Output = subprocess.PIPE, stderr: Output = subprocess.PIPE, **more: str
) -> "subprocess.CompletedProcess[str]":
    """`graft …` of the workspace itself, as from a shell where nothing is activated; `more` are variables of it."""
    command = [".venv/bin/python", "-m", "flows.cli.main", *arguments]
    return subprocess.run(command, cwd=root, env=environment(root) | more, stdout=stdout, stderr=stderr, text=True)


def dvc(root: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """`dvc …` in the workspace, likewise."""
    command = [".venv/bin/dvc", *arguments]
    return subprocess.run(command, cwd=root, env=environment(root) | more, capture_output=True, text=True)


def environment(root: Path) -> dict[str, str]:
    """Free of what belongs to the present project; DVC's memory of file hashes stays in the workspace as well."""
    foreign = ("PREFECT_", "MLFLOW_", "GIT_", "DVC_", "VIRTUAL_ENV", "PYTEST_", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "DVC_SITE_CACHE_DIR": str(root / ".dvc" / "tmp" / "site")}


def _with_environment(root: Path) -> Path:
    """`.venv` there is the environment that this Python belongs to."""
    (root / ".venv").symlink_to(sys.prefix)
    (root / ".git" / "info" / "exclude").write_text("/.venv\n")
    return root


def _git(root: Path, *arguments: str) -> str:
    ended = subprocess.run(
        ["git", *arguments], cwd=root, env=environment(root), check=True, capture_output=True, text=True
    )
    return ended.stdout
