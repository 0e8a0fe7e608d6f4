"""`graft retrain --dry-run`: the stages that a run would compute, why, and the seconds expected of each."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from flows.dvc_stages.pipeline import DvcPipeline
from flows.dvc_stages.staleness import AFTER
from flows.stages.durations import ExpectedSeconds, expected_seconds
from tasks.layout import Layout
from tasks.params.params import Params


@dataclass(frozen=True)
class StaleStage:
    """A stale stage, the reasons, and the seconds it may take.

    `certain`: stale whatever the stages before it write. `cached`: DVC has its results and would restore them.
    """

    stage_id: str
    reasons: list[str]
    certain: bool
    cached: bool
    expected: ExpectedSeconds | None


def forecast(root: Path, text: str, params: Params) -> list[StaleStage]:
    """The stale stages with `text` as params.yaml, in the order of a run. Changes nothing."""
    pipeline = DvcPipeline(root, params=text)
    stale = {stage_id: reasons for stage_id, reasons in pipeline.stale().items() if reasons}
    durations = expected_seconds(Layout(root), params, list(stale))
    lost = [_path(reason) for reasons in stale.values() for reason in reasons if reason.startswith("output ")]
    return [
        StaleStage(
            stage_id,
            reasons,
            certain=not all(_may_vanish(reason, lost) for reason in reasons),
            cached=_has_final_inputs(reasons) and pipeline.is_cached(stage_id),
            expected=durations[stage_id],
        )
        for stage_id, reasons in stale.items()
    ]


def _may_vanish(reason: str, lost: list[str]) -> bool:
    """True if the reason disappears when a stage before writes the same bytes, or a lost output is restored."""
    path = _path(reason) if reason.startswith("input ") else ""
    return reason.startswith(AFTER) or any(path == each or path.startswith(f"{each}/") for each in lost)


def _path(reason: str) -> str:
    """`output run/policy: missing` → `run/policy`."""
    return reason.partition(" ")[2].rpartition(": ")[0]


def _has_final_inputs(reasons: list[str]) -> bool:
    """True if the stage's present inputs are those that it will run with, so that DVC can look up its results."""
    return all(reason.startswith(("param ", "input ", "output ")) for reason in reasons)


def total(stages: Iterable[StaleStage]) -> str:
    """Seconds of the run: from those of the certain stages to those of all."""
    computed = [stage for stage in stages if not stage.cached]
    timed = [stage for stage in computed if stage.expected]
    most = sum(stage.expected.seconds for stage in timed if stage.expected)
    least = sum(stage.expected.seconds for stage in timed if stage.expected and stage.certain)
    span = _span(most) if _span(least) == _span(most) else f"{_span(least)} to {_span(most)}"
    if not timed and computed:
        return "unknown: none of these stages has ever run here"
    unknown = [stage.stage_id for stage in computed if not stage.expected]
    beyond = f", and {', '.join(unknown)}, of which nothing is known" if unknown else ""
    return f"{'at least ' if unknown else ''}{span}{beyond}"


def _span(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.1f} s"


def print_forecast(root: Path, text: str, params: Params, console: Console) -> None:
    """Print a line for each stale stage, then the sum."""
    stages = forecast(root, text, params)
    if not stages:
        console.print("Every stage is up to date: nothing would be computed.")
        return
    for stage in stages:
        console.print(f"{stage.stage_id:<16} {_seconds(stage):>10}  {'; '.join(stage.reasons)}", soft_wrap=True)
    uncertain = sum(not stage.certain for stage in stages)
    console.print(f"\n{len(stages)} {'stage' if len(stages) == 1 else 'stages'}: {total(stages)}.", soft_wrap=True)
    if uncertain:
        console.print(
            f"{uncertain} of these may stay as they are: they only come after others, which may write the same bytes.",
            soft_wrap=True,
        )
    others = sorted({key for stage in stages if stage.expected for key in stage.expected.other_params})
    if others:
        console.print(f"~ was measured with other values of {', '.join(others)}.", soft_wrap=True)


def _seconds(stage: StaleStage) -> str:
    if stage.cached:
        return "cached"
    if stage.expected is None:
        return "unknown"
    about = "~" if stage.expected.other_params else ""
    return f"{about}{stage.expected.seconds:.1f} s"
