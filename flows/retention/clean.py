"""`graft clean --keep N`: remove old results that are not locked, promoted or in use."""

from collections.abc import Iterator

from flows.dvc_stages.pipeline import DvcPipeline
from flows.prefect_runs.crashed_runs import workspace
from flows.retention.dvc_cache import last_lock_texts, list_cache
from flows.retention.leftovers import list_leftovers
from flows.retention.listing import Listing
from flows.retention.prefect_runs import list_prefect_runs
from tasks.core.terminal import print_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promotion.champion import previous_champions, read_history
from tasks.tracking.retention import find_expired
from tasks.tracking.tags import lock_digest

MAX_LINES = 10
"""Things of a kind that are listed by name, the largest first."""


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
    yield list_leftovers(layout, {stage_id for stage_id, reasons in stale.items() if not reasons}, replies)


def _list_mlflow_runs(layout: Layout, params: Params, keep: int) -> Listing:
    listing = Listing("MLflow runs")
    needed = {lock_digest(text) for text in last_lock_texts(layout.root, keep)}
    champions = {step.version for step in read_history(layout.champion)} | set(previous_champions(layout.champion))
    try:
        runs, listing.kept, listing.remove = find_expired(
            layout.root, params.tracking, workspace(layout.root), keep, needed, champions
        )
    except GraftError as error:
        listing.kept.append(f"all: {error}")
        return listing
    listing.removable = {f"{name} ({id}) with its stages": 0 for id, name in runs}
    listing.kept.insert(0, f"the last {keep}")
    if runs:
        listing.kept.append("their artifacts, marked deleted: mlflow gc frees the space")
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
