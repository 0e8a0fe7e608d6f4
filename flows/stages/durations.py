"""How long the last runs of each stage took on this machine, and what it may take the next time.

Kept in `.graft/seconds`, never among the results: no two runs are as fast.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from flows.stages.dvc_yaml import MODULES, definition, parse, stage_of
from tasks.artifacts import read_json, write_json
from tasks.core.metrics_files import flatten
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import RUN_ONLY_SECTIONS, Params
from tasks.records import Record

KEPT = 5  # runs of a stage


class Timed(Record):
    """One run of a stage."""

    seconds: float
    params: dict[str, str]  # by their dotted names


class Timings(Record):
    """The last runs of a stage, the newest at the end."""

    runs: list[Timed]


@dataclass(frozen=True)
class Expected:
    """Seconds that a stage may take; `otherwise`: the params that had other values when that was measured."""

    seconds: float
    otherwise: tuple[str, ...] = ()


def keep(layout: Layout, address: str, params: Params, seconds: float) -> None:
    """Note a run. Where that cannot be written it is a warning: the stage itself is done."""
    path = layout.seconds(address)
    runs = [*_past(path), Timed(seconds=round(seconds, 3), params=_flat(params))]
    try:
        write_json(path, Timings(runs=runs[-KEPT:]))
    except (GraftError, OSError) as error:
        print(f"warning: how long {address} took is not noted ({error})", file=sys.stderr)


def last_seconds(layout: Layout) -> dict[str, float]:
    """Address → what the stage's own work took when it was computed last."""
    past = {path.stem: _past(path) for path in sorted(layout.seconds("").parent.glob("*.json"))}
    return {address: runs[-1].seconds for address, runs in past.items() if runs}


def expected(layout: Layout, params: Params, addresses: Sequence[str]) -> dict[str, Expected | None]:
    """Address → the median of those past runs whose params were most like `params`; None where there are none.

    Looked at are the params that the stage or one before it in the chain may see. A round that never ran is expected
    to take as long as the others of the same stage.
    """
    document, now = parse(layout.root / "dvc.yaml"), _flat(params)
    listed = {stage: [str(key) for key in definition(document, stage)["params"]] for stage in MODULES}
    found: dict[str, Expected | None] = {}
    for address in addresses:
        stage = stage_of(address)
        before = list(MODULES)[: list(MODULES).index(stage) + 1]
        seen = {key for key in now if any(_below(key, name) for each in before for name in listed[each])}
        found[address] = _most_like(_runs(layout, address), {key: now[key] for key in seen - SAYS_NOTHING})
    return found


SAYS_NOTHING = {"seed"}
"""Params that no duration hangs on."""


def _runs(layout: Layout, address: str) -> list[Timed]:
    own = _past(layout.seconds(address))
    rounds = sorted(layout.seconds(address).parent.glob(f"{stage_of(address)}@*.json"))
    return own or [run for path in rounds for run in _past(path)]


def _most_like(runs: list[Timed], now: dict[str, str]) -> Expected | None:
    others = [tuple(sorted(key for key, value in now.items() if run.params.get(key) != value)) for run in runs]
    if not runs:
        return None
    fewest = min(map(len, others))
    likest = [(run, other) for run, other in zip(runs, others, strict=True) if len(other) == fewest]
    return Expected(median(run.seconds for run, _ in likest), likest[-1][1])


def _below(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def _flat(params: Params) -> dict[str, str]:
    """Without what says only which round, or which version of a file."""
    flat = flatten(params.model_dump(exclude=RUN_ONLY_SECTIONS | {"rounds"}))
    return {key: value for key, value in flat.items() if not key.endswith("_sha256")}


def _past(path: Path) -> list[Timed]:
    if not path.exists():
        return []
    try:
        return read_json(path, Timings).runs
    except GraftError:  # a damaged memory is none: it is written anew
        return []
