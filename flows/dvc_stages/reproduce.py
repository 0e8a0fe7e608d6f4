"""`Stage.reproduce` of DVC for one stage, with a function in the place of its `cmd`.

Two things are stricter than in DVC, and never the other way round: a stage that fails or is interrupted leaves the
outputs of its last good run, not a gap; and a dependency or a source that changes while the stage runs stops it,
instead of being recorded as what was run.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dvc.dependency import ParamsDependency
from dvc.exceptions import DvcException
from dvc.stage.cache import RunCacheNotFoundError
from dvc.stage.decorators import rwlocked, unlocked_repo

from flows.dvc_stages.errors import one_line
from flows.dvc_stages.patches.verified_hashes import copies_at_their_word
from flows.process.exit_codes import line_and_code
from flows.stages.dvc_yaml import stage_of
from flows.stages.result import How
from flows.stages.sources import SOURCES, digests
from tasks.artifacts import remove_leftovers
from tasks.errors import GraftError
from tasks.sources.process_sources import sources_at_start


def reproduce(stage: Any, function: Callable[[], None], force: bool, pull: bool, known: dict[str, Any]) -> How:
    """`dvc.repo.reproduce._reproduce_stage`, with `function` in the place of the stage's `cmd`.

    `known`: path → hash of what was looked at since the last stage that ran; an output of one stage that the next
    depends on is looked through once.
    """
    hows: list[How] = []
    stage.changed = partial(_changed, stage, known)
    stage.checkout = partial(_check_out, stage, hows, known)
    stage.run = partial(_run_or_put_back, stage, known)
    stage._run_stage = partial(_restore_or_run, stage, function, hows)
    if not stage.reproduce(force=force, pull=pull):
        return hows[0] if hows else "unchanged"
    stage.dump(update_pipeline=False)
    return hows[0]


def _changed(stage: Any, known: dict[str, Any], *arguments: Any) -> bool:
    """`Stage.changed`: whether there is anything to do."""
    items = [item for item in (*stage.deps, *stage.outs) if not isinstance(item, ParamsDependency)]
    for item in items:
        item.get_hash = partial(_hash, item, known)
    try:
        with copies_at_their_word(stage.repo):
            return bool(type(stage).changed(stage, *arguments))
    finally:
        for item in items:
            del item.get_hash


def _hash(item: Any, known: dict[str, Any]) -> Any:
    """`Output.get_hash`."""
    if item.fs_path not in known:
        known[item.fs_path] = type(item).get_hash(item)
    return known[item.fs_path]


def _check_out(stage: Any, hows: list[How], known: dict[str, Any], **options: Any) -> Any:
    """`Stage.checkout`, which DVC calls here where it has pulled the outputs of a stage that did not change."""
    known.clear()
    stats = type(stage).checkout(stage, **options)
    hows.append("restored")
    return stats


def _run_or_put_back(stage: Any, known: dict[str, Any], **options: Any) -> None:
    """`Stage.run`: remove the outputs, restore or compute them, commit them; all or nothing."""
    known.clear()
    try:
        with stage.repo.state.teaching():
            type(stage).run(stage, **options)
    except BaseException as error:
        try:
            _put_back(stage.reload())
        except (DvcException, OSError) as second:
            line = line_and_code(error)[0] if isinstance(error, Exception) else "interrupted"
            detail = one_line(second).partition(". ")[0]
            why = f"its last good outputs could not be put back ({detail}); the next run does it"
            raise GraftError(f"{line}; {why}") from error
        raise


@rwlocked(read=["deps"], write=["outs"])  # type: ignore[untyped-decorator]
def _restore_or_run(
    stage: Any, function: Callable[[], None], hows: list[How], dry: bool, force: bool, pull: bool = False, **_: Any
) -> None:
    """`dvc.stage.run.run_stage`. DVC has removed the outputs by now."""
    assert not dry
    for out in stage.outs:
        remove_leftovers(Path(out.fs_path))
    if not force:
        try:
            stage.repo.stage_cache.restore(stage, pull=pull)
        except RunCacheNotFoundError:
            pass
        else:
            hows.append("restored")
            return
    stage.save_deps()
    _refuse_changed_sources(stage)
    unlocked_repo(lambda _: function())(stage)
    _refuse_changed_deps(stage)
    hows.append("ran")


def _put_back(stage: Any) -> None:
    """The outputs as `dvc.lock` knows them; half-written ones that it does not know go."""
    for out in stage.outs:
        if out.persist:
            continue
        out.remove()  # first, so that a full disk has room again
        if out.hash_info and not out.changed_cache():
            out.checkout(force=True)


def _changed_sources(stage: Any) -> list[str]:
    """The stage's sources that were edited since this process began: Python keeps what it has imported."""
    if stage.addressing == SOURCES:
        return []
    now = digests(Path(stage.repo.root_dir), stage_of(stage.addressing))
    return [file for file, digest in now.items() if sources_at_start().get(file) != digest]


def _refuse_changed_sources(stage: Any) -> None:
    """An edited source would be recorded but not run."""
    for file in _changed_sources(stage):
        raise GraftError(f"{file}: changed since this command began; run it again to use the new source")


def _refuse_changed_deps(stage: Any) -> None:
    for path in [*_changed_sources(stage), *(dep.def_path for dep in stage.deps if dep.status())]:
        raise GraftError(
            f"{path}: changed while {stage.addressing} was running, so its result is of neither version "
            "and was dropped; run it again"
        )
