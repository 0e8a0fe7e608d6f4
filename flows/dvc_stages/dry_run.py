"""`graft retrain --dry-run`: which stages a run would compute, why, and for how long, by what they took before."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flows.dvc_stages.pipeline import DvcPipeline
from flows.dvc_stages.staleness import AFTER
from flows.stages.durations import Expected, expected
from tasks.layout import Layout
from tasks.params.params import Params

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Step:
    """A stale stage: why, and what it may take.

    `certain`: it is stale whatever those before it write. `at_hand`: DVC has its results and would restore them.
    """

    address: str
    reasons: list[str]
    certain: bool
    at_hand: bool
    expected: Expected | None


def forecast(root: Path, text: str, params: Params) -> list[Step]:
    """The stale stages with `text` as params.yaml, in the order of a run. Changes nothing."""
    pipeline = DvcPipeline(root, params=text)
    stale = {address: reasons for address, reasons in pipeline.stale().items() if reasons}
    durations = expected(Layout(root), params, list(stale))
    lost = [_path(reason) for reasons in stale.values() for reason in reasons if reason.startswith("output ")]
    return [
        Step(a, why, not all(_passing(each, lost) for each in why), _known(why) and pipeline.is_cached(a), durations[a])
        for a, why in stale.items()
    ]


def _passing(reason: str, lost: list[str]) -> bool:
    """Whether a reason falls away where a stage before writes what it wrote, or what was lost of it is restored."""
    path = _path(reason) if reason.startswith("input ") else ""
    return reason.startswith(AFTER) or any(path == each or path.startswith(f"{each}/") for each in lost)


def _path(reason: str) -> str:
    """`output run/policy: missing` → `run/policy`."""
    return reason.partition(" ")[2].rpartition(": ")[0]


def _known(reasons: list[str]) -> bool:
    """Whether a stage's inputs are those that it will have: DVC can look for its results."""
    return all(reason.startswith(("param ", "input ", "output ")) for reason in reasons)


def total(steps: Iterable[Step]) -> str:
    """What the run may take, from the stages that are stale by themselves to all that come after one."""
    computed = [step for step in steps if not step.at_hand]
    known = [step for step in computed if step.expected]
    most = sum(step.expected.seconds for step in known if step.expected)
    least = sum(step.expected.seconds for step in known if step.expected and step.certain)
    span = _span(most) if _span(least) == _span(most) else f"{_span(least)} to {_span(most)}"
    if not known and computed:
        return "unknown: none of these stages has ever run here"
    unknown = [step.address for step in computed if not step.expected]
    beyond = f", and {', '.join(unknown)}, of which nothing is known" if unknown else ""
    return f"{'at least ' if unknown else ''}{span}{beyond}"


def _span(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.1f} s"


def print_forecast(root: Path, text: str, params: Params, console: "Console") -> None:
    """A line for each stale stage, then the sum."""
    steps = forecast(root, text, params)
    if not steps:
        console.print("Every stage is up to date: nothing would be computed.")
        return
    for step in steps:
        console.print(f"{step.address:<16} {_seconds(step):>10}  {'; '.join(step.reasons)}", soft_wrap=True)
    waiting = sum(not step.certain for step in steps)
    console.print(f"\n{len(steps)} {'stage' if len(steps) == 1 else 'stages'}: {total(steps)}.", soft_wrap=True)
    if waiting:
        console.print(
            f"{waiting} of these may stay as they are: they only come after others, which may write the same bytes.",
            soft_wrap=True,
        )
    measured = sorted({key for step in steps if step.expected for key in step.expected.otherwise})
    if measured:
        console.print(f"~ was measured with other values of {', '.join(measured)}.", soft_wrap=True)


def _seconds(step: Step) -> str:
    if step.at_hand:
        return "cached"
    if step.expected is None:
        return "unknown"
    return f"{'~' if step.expected.otherwise else ''}{step.expected.seconds:.1f} s"
