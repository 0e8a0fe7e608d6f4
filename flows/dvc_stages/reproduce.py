"""`Stage.reproduce` of DVC for one stage, with a Python function in place of its `cmd`.

Two things are stricter than in DVC: a stage that fails or is interrupted keeps the outputs of its last good run, and a
dependency or source file that changes while the stage runs stops it, instead of being recorded as its input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from dvc.exceptions import DvcException
from dvc.stage.cache import RunCacheNotFoundError
from dvc.stage.decorators import rwlocked, unlocked_repo

from flows.dvc_stages.patches.verified_hashes import unverified_cache
from flows.process.exit_codes import line_and_code
from flows.stages.dvc_yaml import stage_of
from flows.stages.sources import SOURCES, digests
from tasks.artifacts import remove_leftovers
from tasks.errors import GraftError, one_line
from tasks.params.file import load_params
from tasks.sources.process_sources import source_digests_at_start

How = Literal["unchanged", "restored", "ran"]


@dataclass(frozen=True)
class StageResult:
    """Result of one stage. `deps` and `outs` map paths to their md5 in `dvc.lock`."""

    stage_id: str
    how: How
    seconds: float
    deps: dict[str, str]
    outs: dict[str, str]

    def __str__(self) -> str:
        return f"{self.stage_id:<16} {self.how:<10} {self.seconds:7.1f} s"

    @property
    def cached(self) -> bool:
        """True if nothing had to be computed."""
        return self.how != "ran"


def reproduce(stage: Any, function: Callable[[], None], force: bool, before_dump: Callable[[], None]) -> How:
    """`dvc.repo.reproduce._reproduce_stage`, calling `function` in place of the stage's `cmd`.

    `before_dump` is called before the stage is written into `dvc.lock`.
    """
    hows: list[How] = []
    # On this object alone: DVC's class stays as it is for what else DVC does in this process.
    stage.changed = partial(_changed, stage)
    stage.run = partial(_run, stage)
    stage._run_stage = partial(_restore_or_run, stage, function, hows)
    if not stage.reproduce(force=force):
        return hows[0] if hows else "unchanged"
    before_dump()
    stage.dump(update_pipeline=False)
    return hows[0]


def _changed(stage: Any, *arguments: Any) -> bool:
    """`Stage.changed`. The outputs are hashed; that their cached copies exist is enough here."""
    with unverified_cache():
        return bool(type(stage).changed(stage, *arguments))


def _run(stage: Any, **options: Any) -> None:
    """`Stage.run`: remove the outputs, restore or compute them, commit them; on any error, restore the last ones."""
    try:
        type(stage).run(stage, **options)
    except BaseException as error:
        try:
            _restore_last_outputs(stage.reload())
        except (DvcException, OSError) as second:
            line = line_and_code(error)[0] if isinstance(error, Exception) else "interrupted"
            detail = one_line(" ".join(str(second).split())).partition(". ")[0].rstrip(".")
            why = f"its last good outputs could not be put back ({detail}); the next run does it"
            raise GraftError(f"{line}; {why}") from error
        raise


@rwlocked(read=["deps"], write=["outs"])  # type: ignore[untyped-decorator]
def _restore_or_run(
    stage: Any, function: Callable[[], None], hows: list[How], dry: bool, force: bool, **_: Any
) -> None:
    """`dvc.stage.run.run_stage`. DVC has removed the outputs before."""
    assert not dry
    for out in stage.outs:
        remove_leftovers(Path(out.fs_path))
    if not force:
        try:
            stage.repo.stage_cache.restore(stage)
        except RunCacheNotFoundError:
            pass
        else:
            hows.append("restored")
            return
    stage.save_deps()
    for file in _changed_sources(stage):
        raise GraftError(f"{file}: changed since this command began; run it again to use the new source")
    unlocked_repo(lambda _: function())(stage)
    for path in [*_changed_sources(stage), *(dep.def_path for dep in stage.deps if dep.status())]:
        raise GraftError(
            f"{path}: changed while {stage.addressing} was running, so its result is of neither version "
            "and was dropped; run it again"
        )
    hows.append("ran")


def _restore_last_outputs(stage: Any) -> None:
    """Check out the outputs in `dvc.lock`; remove those that it does not list."""
    for out in stage.outs:
        if out.persist:
            continue
        out.remove()  # first, to free space on a full disk
        if out.hash_info and not out.changed_cache():
            out.checkout(force=True)


def _changed_sources(stage: Any) -> list[str]:
    """The stage's source files that were edited after this process started, which may have imported them before."""
    if stage.addressing == SOURCES:
        return []
    root = Path(stage.repo.root_dir)
    now = digests(root, stage_of(stage.addressing), load_params(root / "params.yaml"))
    return [file for file, digest in now.items() if source_digests_at_start().get(file) != digest]
