"""Temporary files of killed processes in `run/`, `.graft/` and next to `champion/`; journals of finished rounds."""

import shutil
from pathlib import Path

from flows.retention.listing import Listing
from tasks.artifacts import leftovers
from tasks.layout import Layout

TEMPORARY = ".*." + "[a-z0-9_]" * 8
"""Pattern of the name of a file or folder while it is written."""

PREFECT = "prefect"
"""The folder of Prefect in `.graft/`, which is left to Prefect."""


def list_leftovers(layout: Layout, up_to_date: set[str], replies: bool) -> Listing:
    """List leftovers; no other process may be writing. `up_to_date`: ids of stages.

    `replies`: list the stored replies of models, too, which cost money.
    """
    listing = Listing("leftovers")
    graft = layout.root / ".graft"
    folders = [layout.root / "run", *(path for path in graft.glob("*") if path.name != PREFECT)]
    found = [path for folder in folders for path in sorted(folder.rglob(TEMPORARY))]
    found += [path for path in sorted(graft.glob(TEMPORARY)) if path not in found]
    found += leftovers(layout.champion) if layout.champion.exists() else []
    for journal in sorted((graft / "journal").glob("*")):
        if journal.name in up_to_date:
            found.append(journal)
        else:
            listing.kept.append(f"{journal.relative_to(layout.root)}: {journal.name} goes on from it")
    if replies and layout.replies.exists():
        found.append(layout.replies)
    elif layout.replies.exists():
        listing.kept.append("model replies, a memory that cost money (--replies)")
    found = [path for path in found if not any(other in path.parents for other in found)]
    listing.removable = {str(path.relative_to(layout.root)): _size(path) for path in found}

    def remove() -> None:
        for path in found:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    listing.remove = remove
    return listing


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]
    return sum(file.stat().st_size for file in files)
