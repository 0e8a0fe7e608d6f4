"""Changes between two runs that a person could have made: problems, params, sources.

DVC's notion of stale does not serve: a promotion changes the champion, and with it the base of the next run, although
the user changed nothing. The params that differ from the committed `params.yaml` say, with the commit, with which
params a run was made.
"""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field

from flows.stages.dvc_yaml import MODULES
from flows.stages.sources import digests as digests_of_sources
from flows.stages.user_files import CHAMPION, user_files
from tasks.artifacts import read_json
from tasks.core.metrics_files import flatten
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import overridden
from tasks.params.params import Params, dump_stage_params
from tasks.problems.digests import ProblemFile, digest_problem_files
from tasks.promote.champion import read_champion
from tasks.records import Lineage, Record

WRITTEN_BY_RUNS = ("run/", "champion/")

MAX_NAMED = 3  # files that are listed by name; of more, only their number

Overrides = dict[str, tuple[str, str]]
"""Param by its dotted name → the value before, or the committed one, and the present one."""


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
    """`policy.base` of a scheduled run: the champion, if it was trained from the base in params.yaml.

    Any other base was chosen by the user and is kept.
    """
    champion = read_champion(layout.champion, params.environment.name)
    return CHAMPION if champion and params.policy.base in (CHAMPION, _origin(layout).base) else params.policy.base


def read_inputs(layout: Layout, params: Params) -> RunInputs:
    """The inputs of a run with `params`. Raises GraftError if a file that params name is missing."""
    flat, files = flat_params(params), user_files(layout.root, params)
    return RunInputs(
        problems=digest_problem_files(layout.root, params),
        params=flat,
        sources={
            file: digest for stage in MODULES for file, digest in digests_of_sources(layout.root, stage, params).items()
        },
        files={param: digest() for param, digest in files.items() if not flat[param].startswith(WRITTEN_BY_RUNS)},
    )


def read_scheduled_inputs(layout: Layout, params: Params) -> RunInputs:
    """The inputs of a scheduled run at present; a promotion does not change them.

    Raises GraftError if a file that params name is missing.
    """
    inputs = read_inputs(layout, params)
    if scheduled_base(layout, params) == CHAMPION:
        origin = _origin(layout)
        inputs.params["policy.base"] = origin.base
        if origin.base_sha256:
            inputs.files["policy.base"] = origin.base_sha256
    return inputs


def flat_params(params: Params) -> dict[str, str]:
    """The params that stages read, as texts by their dotted names."""
    return flatten(dump_stage_params(params))


def describe_changes(before: RunInputs | None, now: RunInputs) -> list[str]:
    """The changes in words; empty if there are none."""
    if before is None:
        count = sum(data.problems for data in now.problems.values())
        first = "the first scheduled run here"
        return [f"{first}, of {count} problems in {_files(now.problems)}" if now.problems else first]
    params = [f"{key} {old} → {new}" for key, (old, new) in changed_params(before, now).items()]
    files = [f"other content of {key}" for key in changed_files(before, now)]
    return [*_problems(before.problems, now.problems), *params, *files, *_sources(before, now)]


def changed_params(before: RunInputs, now: RunInputs) -> Overrides:
    """The params that differ, with both values, by their dotted names. `rounds.start` follows from `rounds.last`."""
    return _differing(before.params, now.params)


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> Overrides:
    values = {
        key: (before.get(key, "null"), now.get(key, "null"))
        for key in sorted(before.keys() | now.keys())
        if not key.startswith("rounds.start.")
    }
    return {key: (old, new) for key, (old, new) in values.items() if old != new}


def changed_files(before: RunInputs, now: RunInputs) -> list[str]:
    """The params that are equal, but whose files differ."""
    keys = sorted((before.files.keys() | now.files.keys()) - changed_params(before, now).keys())
    return [key for key in keys if before.files.get(key) != now.files.get(key)]


def _problems(before: Mapping[str, ProblemFile], now: Mapping[str, ProblemFile]) -> Iterator[str]:
    new = {name: data for name, data in now.items() if name not in before}
    gone = {name: data for name, data in before.items() if name not in now}
    if new:
        yield f"{sum(data.problems for data in new.values())} new problems in {_files(new, 'new ')}"
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name]:
            yield f"{name} changed, {before[name].problems} → {now[name].problems} problems"
    if gone:
        yield f"{sum(data.problems for data in gone.values())} problems fewer, without {_files(gone)}"


def _sources(before: RunInputs, now: RunInputs) -> Iterator[str]:
    names = before.sources.keys() | now.sources.keys()
    changed = {name: "" for name in sorted(names) if before.sources.get(name) != now.sources.get(name)}
    if changed:
        yield f"other source in {_files(changed)}"


def _files(files: Mapping[str, object], adjective: str = "") -> str:
    names = f" ({', '.join(files)})" if len(files) <= MAX_NAMED else ""
    return f"{len(files)} {adjective}file{'s' * (len(files) != 1)}{names}"


def _origin(layout: Layout) -> Lineage:
    return read_json(layout.champion / "policy" / "lineage.json", Lineage)


def overrides(root: Path, params: Params) -> Overrides:
    """The params of a run that differ.

    Empty if the last commit has no `params.yaml`, or one of another version of Graft.
    """
    try:
        command = ["git", "show", "HEAD:./params.yaml"]
        text = subprocess.run(
            command, cwd=root, capture_output=True, encoding="utf-8", errors="replace", check=True
        ).stdout
        committed = flat_params(overridden(root / "params.yaml", text, [])[1])
    except (OSError, subprocess.CalledProcessError, GraftError):
        return {}
    return _differing(committed, flat_params(params))


def as_text(params: Overrides) -> str:
    """`update.beta=0.05 rounds.last=2`: the present values."""
    return " ".join(f"{key}={new}" for key, (_, new) in params.items())
