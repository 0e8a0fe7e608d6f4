"""The `dvc.lock` of each finished run, `.graft/locks/NUMBER.lock`: what of the DVC cache a run needs.

DVC itself knows only the one of the workspace and those in git. `cp .graft/locks/N.lock dvc.lock && dvc checkout`
brings such a run's files back.
"""

from pathlib import Path

from tasks.artifacts import read_text, write_text


def note_lock(root: Path) -> None:
    """Keep the present `dvc.lock`; nothing new where the last run ended with the same."""
    text = read_text(root / "dvc.lock")
    before = locks(root)
    if not before or read_text(before[-1]) != text:
        number = int(before[-1].stem) + 1 if before else 1
        write_text(root / ".graft" / "locks" / f"{number:06}.lock", text)


def locks(root: Path) -> list[Path]:
    """Those of finished runs, the first one first."""
    return sorted((root / ".graft" / "locks").glob("[0-9]*.lock"), key=lambda path: int(path.stem))
