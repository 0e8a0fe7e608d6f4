"""Seconds that the last runs of each stage took on this machine, and the seconds expected of the next one.

Kept in `.graft/seconds`, outside of the results, which are the same in every run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from flows.stages.dvc_yaml import MODULES, definition, parse, stage_of
from tasks.artifacts import read_json, write_json
from tasks.core.metrics_files import flatten
from tasks.core.terminal import print_remark
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params, dump_stage_params
from tasks.records import Record

MAX_RUNS = 5
"""Runs of a stage that are kept."""

IRRELEVANT_PARAMS = {"seed"}
"""Params that no duration depends on."""


class TimedRun(Record):
    """One run of a stage."""

    seconds: float
    params: dict[str, str]  # by their dotted names


class Timings(Record):
    """The last runs of a stage, the newest at the end."""

    runs: list[TimedRun]


@dataclass(frozen=True)
class ExpectedSeconds:
    """Seconds expected of a stage, and the params that had other values when they were measured."""

    seconds: float
    other_params: tuple[str, ...] = ()


def record_duration(layout: Layout, stage_id: str, params: Params, seconds: float) -> None:
    """Record a run. A failure to write is only a warning: the stage itself is done."""
    path = layout.seconds(stage_id)
    runs = [*read_runs(path), TimedRun(seconds=round(seconds, 3), params=_flat_params(params))]
    try:
        write_json(path, Timings(runs=runs[-MAX_RUNS:]))
    except (GraftError, OSError) as error:
        print_remark(f"warning: how long {stage_id} took is not noted ({error})")


def expected_seconds(layout: Layout, params: Params, stage_ids: Sequence[str]) -> dict[str, ExpectedSeconds | None]:
    """Stage id → the median of those runs whose params differ least from `params`; None if it never ran.

    Only params of the stage and of those before it in the chain are compared. For a round that never ran, the runs of
    the other rounds are taken.
    """
    document, now = parse(layout.root / "dvc.yaml"), _flat_params(params)
    declared = {stage: [str(key) for key in definition(document, stage)["params"]] for stage in MODULES}
    expected: dict[str, ExpectedSeconds | None] = {}
    for stage_id in stage_ids:
        before = list(MODULES)[: list(MODULES).index(stage_of(stage_id)) + 1]
        keys = {key for key in now if any(_is_below(key, name) for stage in before for name in declared[stage])}
        expected[stage_id] = _nearest(_runs(layout, stage_id), {key: now[key] for key in keys - IRRELEVANT_PARAMS})
    return expected


def _runs(layout: Layout, stage_id: str) -> list[TimedRun]:
    runs = read_runs(layout.seconds(stage_id))
    rounds = sorted(layout.seconds(stage_id).parent.glob(f"{stage_of(stage_id)}@*.json"))
    return runs or [run for path in rounds for run in read_runs(path)]


def _nearest(runs: list[TimedRun], now: dict[str, str]) -> ExpectedSeconds | None:
    others = [tuple(sorted(key for key, value in now.items() if run.params.get(key) != value)) for run in runs]
    if not runs:
        return None
    fewest = min(map(len, others))
    nearest = [(run, other) for run, other in zip(runs, others, strict=True) if len(other) == fewest]
    return ExpectedSeconds(median(run.seconds for run, _ in nearest), nearest[-1][1])


def _is_below(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def _flat_params(params: Params) -> dict[str, str]:
    """Without the params that only name a round."""
    return flatten({name: value for name, value in dump_stage_params(params).items() if name != "rounds"})


def read_runs(path: Path) -> list[TimedRun]:
    """The runs in the file of a stage; [] if it is missing or damaged."""
    if not path.exists():
        return []
    try:
        return read_json(path, Timings).runs
    except GraftError:  # a damaged file is written again
        return []
