"""`graft clean --keep N`: remove old results that are not locked, promoted or in use."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from flows.dvc_stages.pipeline import DvcPipeline
from flows.prefect_runs.crashed_runs import workspace
from flows.retention.dvc_cache import last_lock_texts, list_cache
from flows.retention.listing import Listing
from flows.retention.prefect_runs import list_prefect_runs
from tasks.artifacts import leftovers
from tasks.core.terminal import print_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promote.champion import previous_champions, read_history
from tasks.tracking.retention import find_expired
from tasks.tracking.tags import lock_digest

MAX_LINES = 10
"""Things of a kind that are listed by name, the largest first."""

TEMPORARY = ".*." + "[a-z0-9_]" * 8
"""Pattern of the name of a file or folder while it is written."""

PREFECT = "prefect"
"""The folder of Prefect in `.graft/`, which is left to Prefect."""


def clean(layout: Layout, params: Params, keep: int, really: bool, replies: bool) -> None:
    """List what may be removed and what is kept; with `really`, remove it. The caller holds the workspace lock."""
    listings = list(_listings(layout, params, keep, replies))
    for listing in listings:
        _print(listing)
    size = sum(sum(listing.removable.values()) for listing in listings)
    if not any(listing.removable for listing in listings):
        print("nothing to remove")
        return
    if not really:
        print(f"{_bytes(size)} could go; nothing was removed: graft clean --keep {keep} --yes does it")
        return
    for listing in listings:
        if listing.removable:
            listing.remove()
    print(f"removed: {_bytes(size)}")


def _listings(layout: Layout, params: Params, keep: int, replies: bool) -> Iterator[Listing]:
    stale = DvcPipeline(layout.root).stale()
    yield list_cache(layout.root, keep)
    yield _list_mlflow_runs(layout, params, keep)
    yield list_prefect_runs(layout.root, keep)
    yield _list_leftovers(layout, {stage_id for stage_id, reasons in stale.items() if not reasons}, replies)


def _list_mlflow_runs(layout: Layout, params: Params, keep: int) -> Listing:
    listing = Listing("MLflow runs")
    needed = {lock_digest(text) for text in last_lock_texts(layout.root, keep)}
    champions = {step.version for step in read_history(layout.champion)} | set(previous_champions(layout.champion))
    try:
        runs, listing.kept, listing.remove = find_expired(
            layout.root, params.machine.tracking, workspace(layout.root), keep, needed, champions
        )
    except GraftError as error:
        listing.kept.append(f"all: {error}")
        return listing
    listing.removable = {f"{name} ({id}) with its stages": 0 for id, name in runs}
    listing.kept.insert(0, f"the last {keep}")
    if runs:
        listing.kept.append("their artifacts, marked deleted: mlflow gc frees the space")
    return listing


def _list_leftovers(layout: Layout, up_to_date: set[str], replies: bool) -> Listing:
    """Temporary files of killed processes, and journals of finished rounds. `up_to_date`: ids of stages.

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


def _print(listing: Listing) -> None:
    total = sum(listing.removable.values())
    print(f"{listing.title}: {len(listing.removable)} to go{f', {_bytes(total)}' if total else ''}")
    ordered = sorted(listing.removable.items(), key=lambda item: -item[1])
    for name, size in ordered[:MAX_LINES]:
        print_text(f"  goes   {name}{f'  {_bytes(size)}' if size else ''}")
    if len(ordered) > MAX_LINES:
        print(f"  goes   … and {len(ordered) - MAX_LINES} smaller ones")
    for line in listing.kept:
        print_text(f"  stays  {line}")


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]
    return sum(file.stat().st_size for file in files)
