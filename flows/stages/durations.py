"""Seconds that each stage took when it last ran on this machine.

Kept in `.graft/seconds`, outside of the results, which are the same in every run.
"""

from contextlib import suppress

from flows.stages.dvc_yaml import stage_of
from tasks.artifacts import read_json, write_json
from tasks.core.terminal import print_remark
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.records.record import Record


class Timing(Record):
    """The last run of a stage."""

    seconds: float


def record_duration(layout: Layout, stage_id: str, seconds: float) -> None:
    """Record a run. A failure to write is only a warning: the stage itself is done."""
    try:
        write_json(layout.seconds(stage_id), Timing(seconds=round(seconds, 3)))
    except (GraftError, OSError) as error:
        print_remark(f"warning: how long {stage_id} took is not noted ({error})")


def last_seconds(layout: Layout, stage_id: str) -> float | None:
    """Seconds of the stage's last run, or of another round where this one never ran; None if none is known."""
    path = layout.seconds(stage_id)
    rounds = sorted(path.parent.glob(f"{stage_of(stage_id)}@*.json"))
    for file in (path, *rounds):
        with suppress(GraftError):  # missing, or damaged: it is written again
            return read_json(file, Timing).seconds
    return None
