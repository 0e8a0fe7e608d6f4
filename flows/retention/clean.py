"""`graft clean --keep N`: remove old results from the DVC cache, and what killed processes left.

Old runs in Prefect and the tracker are removed by their own commands (docs/operations.md#10-retention).
"""

import shutil
from pathlib import Path

from flows.dvc_stages.pipeline import DvcPipeline
from flows.retention.dvc_cache import Listing, list_cache
from tasks.artifacts import leftovers
from tasks.core.terminal import print_text
from tasks.layout import Layout

MAX_LINES = 10
"""Things of a kind that are listed by name, the largest first."""

TEMPORARY = ".*." + "[a-z0-9_]" * 8
"""Pattern of the name of a file or folder while it is written."""


def clean(layout: Layout, keep: int, really: bool, replies: bool) -> None:
    """List what may be removed and what is kept; with `really`, remove it. The caller holds the workspace lock."""
    stale = DvcPipeline(layout.root).stale()
    up_to_date = {stage_id for stage_id, reasons in stale.items() if not reasons}
    listings = [list_cache(layout.root, keep), _list_leftovers(layout, up_to_date, replies)]
    for listing in listings:
        _print(listing)
    size = sum(sum(listing.removable.values()) for listing in listings)
    if not any(listing.removable for listing in listings):
        print("nothing to remove")
    elif not really:
        print(f"{_bytes(size)} could go; nothing was removed: graft clean --keep {keep} --yes does it")
    else:
        for listing in listings:
            if listing.removable:
                listing.remove()
        print(f"removed: {_bytes(size)}")


def _list_leftovers(layout: Layout, up_to_date: set[str], replies: bool) -> Listing:
    """Temporary files of killed processes, and journals of finished rounds. `up_to_date`: ids of stages.

    `replies`: list the stored replies of models, too, which cost money.
    """
    graft, kept = layout.root / ".graft", []
    folders = [layout.root / "run", *(path for path in graft.glob("*") if path.name != "prefect")]  # Prefect's own
    removable = [path for folder in folders for path in sorted(folder.rglob(TEMPORARY))]
    removable += sorted(graft.glob(TEMPORARY))
    places = (layout.champion, layout.challenger, layout.latest)
    removable += [left for place in places if place.exists() for left in leftovers(place)]
    for journal in sorted((graft / "journal").glob("*")):
        if journal.name in up_to_date:
            removable.append(journal)
        else:
            kept.append(f"{journal.relative_to(layout.root)}: {journal.name} goes on from it")
    if replies and layout.replies.exists():
        removable.append(layout.replies)
    elif layout.replies.exists():
        kept.append("model replies, a memory that cost money (--replies)")
    removable = [path for path in removable if not any(other in path.parents for other in removable)]

    def remove() -> None:
        for path in removable:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    sizes = {str(path.relative_to(layout.root)): _size(path) for path in removable}
    return Listing("leftovers", sizes, kept, remove)


def _print(listing: Listing) -> None:
    total = sum(listing.removable.values())
    print(f"{listing.title}: {len(listing.removable)} to go{f', {_bytes(total)}' if total else ''}")
    ordered = sorted(listing.removable.items(), key=lambda item: -item[1])
    for name, size in ordered[:MAX_LINES]:
        print_text(f"  goes   {name}  {_bytes(size)}")
    if len(ordered) > MAX_LINES:
        print(f"  goes   … and {len(ordered) - MAX_LINES} smaller ones")
    for line in listing.kept:
        print_text(f"  stays  {line}")


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]
    return sum(file.stat().st_size for file in files)
