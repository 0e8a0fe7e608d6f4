"""`graft clean --keep N`: old results go; what is locked, promoted or in use stays."""

import hashlib
from collections.abc import Iterator

from flows.dvc_stages.pipeline import DvcPipeline
from flows.prefect_runs.crashed_runs import workspace
from flows.retention.dvc_cache import cache_part, last_lock_texts
from flows.retention.leftovers import leftovers_part
from flows.retention.listing import Going, Part
from flows.retention.prefect_runs import prefect_part
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promotion.champion import previous_champions, read_history
from tasks.tracking.retention import expired

SHOWN = 10  # of a kind, the largest; of the others their number


def clean(layout: Layout, params: Params, keep: int, really: bool, replies: bool) -> None:
    """List what would go and what stays; `really`: take away just that. To be called with the workspace to oneself."""
    parts = list(_parts(layout, params, keep, replies))
    for part in parts:
        _print(part)
    going = [part for part in parts if part.goes]
    size = sum(item.size or 0 for part in going for item in part.goes)
    if not going:
        print("nothing to remove")
        return
    if not really:
        print(f"{_bytes(size)} could go; nothing was removed: graft clean --keep {keep} --yes does it")
        return
    for part in going:
        part.remove()
    print(f"removed: {_bytes(size)}")


def _parts(layout: Layout, params: Params, keep: int, replies: bool) -> Iterator[Part]:
    stale = DvcPipeline(layout.root).stale()
    yield cache_part(layout.root, keep)
    yield _mlflow_part(layout, params, keep)
    yield prefect_part(layout.root, keep)
    yield leftovers_part(layout, {address for address, reasons in stale.items() if not reasons}, replies)


def _mlflow_part(layout: Layout, params: Params, keep: int) -> Part:
    part = Part("MLflow runs")
    needed = {hashlib.md5(text).hexdigest() for text in last_lock_texts(layout.root, keep)}
    champions = {step.version for step in read_history(layout.champion)} | set(previous_champions(layout.champion))
    try:
        goes, part.stays, part.remove = expired(
            layout.root, params.tracking, workspace(layout.root), keep, needed, champions
        )
    except GraftError as error:
        part.stays.append(f"all: {error}")
        return part
    part.goes = [Going(f"{name} ({id}) with its stages") for id, name in goes]
    part.stays.insert(0, f"the last {keep}")
    if goes:
        part.stays.append("their artifacts, marked deleted: mlflow gc frees the space")
    return part


def _print(part: Part) -> None:
    size = sum(item.size or 0 for item in part.goes)
    print(f"{part.what}: {len(part.goes)} to go{f', {_bytes(size)}' if size else ''}")
    ordered = sorted(part.goes, key=lambda item: -(item.size or 0))
    for item in ordered[:SHOWN]:
        print(f"  goes   {item.name}{'' if item.size is None else f'  {_bytes(item.size)}'}")
    if len(ordered) > SHOWN:
        print(f"  goes   … and {len(ordered) - SHOWN} smaller ones")
    for line in part.stays:
        print(f"  stays  {line}")


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
