"""Changes between two runs that a person could have made: problems, params, sources.

DVC's notion of stale does not serve: a run changes the latest policy, and with it the base of the next run, although
the user changed nothing.
"""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import Field

from flows.stages.dvc_yaml import MODULES
from flows.stages.sources import digests as digests_of_sources
from flows.stages.user_files import CHAMPION, LATEST, user_files
from tasks.artifacts import read_json
from tasks.core.metrics_files import flatten
from tasks.core.terminal import shortened
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import overridden
from tasks.params.params import Params, dump_stage_params
from tasks.problems.digests import ProblemFile, digest_problem_files
from tasks.promote.champion import read_champion
from tasks.promote.latest import read_latest
from tasks.records.policy import Lineage
from tasks.records.record import Record

WRITTEN_BY_RUNS = ("run/", "champion/", "challenger/", "latest/")

MAX_PARAMS = 3  # of more, only their number
MAX_CHARACTERS = 24  # of a param's value


class RunInputs(Record):
    """What a run was computed from.

    `.graft/inputs.json` has those of the last run that succeeded, `.graft/seen.json` of the last scheduled one.
    """

    problems: dict[str, ProblemFile]  # by file; empty if they are generated
    params: dict[str, str]  # by their dotted names
    sources: dict[str, str]  # file → sha256
    files: dict[str, str] = Field(default_factory=dict)
    """Param → sha256 of the user's files that it names, but for those that runs write themselves."""


def scheduled_base(layout: Layout, params: Params) -> str:
    """`policy.base` of a scheduled run: the latest policy or the champion, by `machine.schedule.start`, if it was
    trained from the base in params.yaml.

    Any other base was chosen by the user and is kept.
    """
    environment, start = params.environment.name, params.policy.base
    served = read_champion(layout.champion, environment)
    latest = read_latest(layout) if params.machine.schedule.start == "latest" else None
    if latest and latest.environment in (environment, None):
        start = LATEST
    elif served:
        start = CHAMPION
    own = (CHAMPION, LATEST, _origin(layout, start).base if start in (CHAMPION, LATEST) else start)
    return start if params.policy.base in own else params.policy.base


def read_inputs(layout: Layout, params: Params) -> RunInputs:
    """The inputs of a run with `params`. Raises GraftError if a file that params name is missing."""
    flat, files = _flat(params), user_files(layout.root, params)
    return RunInputs(
        problems=digest_problem_files(layout.root, params),
        params=flat,
        sources={
            file: digest for stage in MODULES for file, digest in digests_of_sources(layout.root, stage, params).items()
        },
        files={param: digest() for param, digest in files.items() if not flat[param].startswith(WRITTEN_BY_RUNS)},
    )


def read_scheduled_inputs(layout: Layout, params: Params) -> RunInputs:
    """The inputs of a scheduled run at present; neither a promotion nor another latest policy changes them.

    Raises GraftError if a file that params name is missing.
    """
    inputs = read_inputs(layout, params)
    if (base := scheduled_base(layout, params)) in (CHAMPION, LATEST):
        origin = _origin(layout, base)
        inputs.params["policy.base"] = origin.base
        if origin.base_sha256:
            inputs.files["policy.base"] = origin.base_sha256
    return inputs


def summarise_change(before: RunInputs | None, now: RunInputs) -> str:
    """What differs from an earlier run, in a few words; "" if nothing does."""
    if before is None:
        return "first run"
    params = _changed_params(before.params, now.params).items()
    named = [f"{_tail(key, now.params)} {shortened(value, MAX_CHARACTERS)}" for key, value in params]
    named += [f"other {_tail(key, now.params)}" for key in _changed_files(before, now)]
    more = [f"+{len(named) - MAX_PARAMS}"] if len(named) > MAX_PARAMS else []
    return ", ".join([*named[:MAX_PARAMS], *more, *_others(before, now)])


def list_changes(before: RunInputs, now: RunInputs) -> str:
    """All that differs from an earlier run, `update.beta=0.05, other source` for instance; "" if nothing does."""
    params = [f"{key}={new}" for key, new in _changed_params(before.params, now.params).items()]
    return ", ".join([*params, *(f"other {key}" for key in _changed_files(before, now)), *_others(before, now)])


def overrides(root: Path, params: Params) -> str:
    """The params that differ from the committed `params.yaml`: `rounds.last=2 update.beta=0.05`.

    "" if none does, or the last commit has no such file, or one with mistakes.
    """
    try:
        command = ["git", "show", "HEAD:./params.yaml"]
        text = subprocess.run(
            command, cwd=root, capture_output=True, encoding="utf-8", errors="replace", check=True
        ).stdout
        committed = _flat(overridden(root / "params.yaml", text, [])[1])
    except (OSError, subprocess.CalledProcessError, GraftError):
        return ""
    return " ".join(f"{key}={new}" for key, new in _changed_params(committed, _flat(params)).items())


def _flat(params: Params) -> dict[str, str]:
    """The params that stages read, as texts by their dotted names."""
    return flatten(dump_stage_params(params))


def _changed_params(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The params that differ, with the present value, sorted. `rounds.start` follows from `rounds.last`."""
    keys = sorted(key for key in before.keys() | now.keys() if not key.startswith("rounds.start."))
    values = {key: now.get(key, "null") for key in keys}
    return {key: value for key, value in values.items() if value != before.get(key, "null")}


def _changed_files(before: RunInputs, now: RunInputs) -> list[str]:
    """The params that are equal, but whose files differ."""
    keys = sorted((before.files.keys() | now.files.keys()) - _changed_params(before.params, now.params).keys())
    return [key for key in keys if before.files.get(key) != now.files.get(key)]


def _others(before: RunInputs, now: RunInputs) -> Iterator[str]:
    if before.problems != now.problems:
        old, new = (sum(file.problems for file in inputs.problems.values()) for inputs in (before, now))
        yield f"problems {old} → {new}" if old != new else "other problems"
    if before.sources != now.sources:
        yield "other source"


def _tail(key: str, names: Iterable[str]) -> str:
    """The shortest end of a dotted name that no other name has; `rounds.last` is `rounds`, as with -S."""
    if key == "rounds.last":
        return "rounds"
    parts = key.split(".")
    ends = (".".join(parts[i:]) for i in reversed(range(len(parts))))
    others = [name for name in names if name != key]
    return next((end for end in ends if not any(name.endswith(f".{end}") or name == end for name in others)), key)


def _origin(layout: Layout, base: str) -> Lineage:
    return read_json(layout.root / base / "lineage.json", Lineage)
