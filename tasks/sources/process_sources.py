"""The source code that this process is made of, for the processes that it starts and for what is computed with it."""

from functools import cache

from tasks.core.child_process import CODE


def sources() -> dict[str, str]:
    """Path from `CODE` → digest of each source file of the stages, sorted."""
    from tasks.artifacts import digest_path  # late: a run's first process is started with this module alone

    files = sorted((CODE / "tasks").rglob("*.py"))
    return {file.relative_to(CODE).as_posix(): digest_path(file) for file in files}


@cache
def sources_at_start() -> dict[str, str]:
    """Those that this process found when it asked first, and may have imported; ask before any stage is imported."""
    return sources()
