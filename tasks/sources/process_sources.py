"""The source code that this process is made of, for the processes that it starts and for what is computed with it."""

import os
from functools import cache
from pathlib import Path

CODE = Path(__file__).resolve().parents[2]
"""The folder that `flows` and `tasks` are in."""


def python_path() -> str:
    """PYTHONPATH of a process that is to import this Graft, wherever it runs; what stands there already comes after."""
    more = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(CODE), more] if more else [str(CODE)])


def sources() -> dict[str, str]:
    """Path from `CODE` → digest of each source file of the stages, sorted."""
    from tasks.artifacts import digest_path  # late: a run's first process is started with this module alone

    files = sorted((CODE / "tasks").rglob("*.py"))
    return {file.relative_to(CODE).as_posix(): digest_path(file) for file in files}


@cache
def sources_at_start() -> dict[str, str]:
    """Those that this process found when it asked first, and may have imported; ask before any stage is imported."""
    return sources()
