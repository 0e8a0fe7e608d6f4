"""Copies of `dvc.lock`, one per finished run: `.graft/locks/NUMBER.lock`. They say which cached files a run needs.

DVC itself knows only the lock of the workspace and those in git. `cp .graft/locks/N.lock dvc.lock && dvc checkout`
restores the files of such a run.
"""

from pathlib import Path

from tasks.artifacts import read_text, write_text


def save_lock(root: Path) -> None:
    """Save the present `dvc.lock`, unless it equals the last one."""
    text = read_text(root / "dvc.lock")
    before = saved_locks(root)
    if not before or read_text(before[-1]) != text:
        number = int(before[-1].stem) + 1 if before else 1
        write_text(root / ".graft" / "locks" / f"{number:06}.lock", text)


def saved_locks(root: Path) -> list[Path]:
    """The locks of finished runs, the oldest first."""
    return sorted((root / ".graft" / "locks").glob("[0-9]*.lock"), key=lambda path: int(path.stem))
