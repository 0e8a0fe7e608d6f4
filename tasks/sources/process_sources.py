"""The folder of a project's source files, and the digests of those that this process runs."""

from functools import cache
from pathlib import Path

from tasks.core.child_process import CODE

PACKAGES = ("tasks", "flows", "recipes")
"""Graft's own packages."""


def code_folder(root: Path) -> Path:
    """The folder of Graft's packages that a project runs: its own in a clone of Graft, else that of this process."""
    return root if (root / "flows" / "stages" / "run.py").is_file() else CODE


def source_digests() -> dict[str, str]:
    """Path from `CODE` → digest of each source file of the stages and recipes, files of data included, sorted."""
    from tasks.artifacts import digest_path  # late, to keep this module light: a run's first process imports it

    folders = (CODE / "tasks", CODE / "recipes")
    files = sorted(file for kind in ("*.py", "*.yaml") for folder in folders for file in folder.rglob(kind))
    return {file.relative_to(CODE).as_posix(): digest_path(file) for file in files}


@cache
def source_digests_at_start() -> dict[str, str]:
    """The digests at the first call, which must come before any stage is imported."""
    return source_digests()
