"""`graft retrain --dry-run`: the stages that a run would compute, why, and the seconds that they took the last time."""

from pathlib import Path

from rich.console import Console

from flows.dvc_stages.pipeline import DvcPipeline
from flows.stages.durations import last_seconds
from tasks.layout import Layout


def print_forecast(root: Path, text: str, console: Console) -> None:
    """Print a line for each stage that is stale with `text` as params.yaml, then the sum. Changes nothing."""
    stale = {stage_id: reasons for stage_id, reasons in DvcPipeline(root, params=text).stale().items() if reasons}
    if not stale:
        console.print("Every stage is up to date: nothing would be computed.")
        return
    seconds = {stage_id: last_seconds(Layout(root), stage_id) for stage_id in stale}
    for stage_id, reasons in stale.items():
        known = seconds[stage_id]
        took = "unknown" if known is None else f"{known:.1f} s"
        console.print(f"{stage_id:<16} {took:>10}  {'; '.join(reasons)}", soft_wrap=True)
    total = sum(known for known in seconds.values() if known is not None)
    console.print(
        f"\n{len(stale)} stages: {total:.1f} s when they last ran here. Those that only come after others stay as they "
        "are where these write the same bytes; results that DVC has are restored.",
        soft_wrap=True,
    )
